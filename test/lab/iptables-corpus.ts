import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import type { TestContext } from 'node:test';
import type { Family } from '../../lib/cidr/address.ts';
import { iptablesRule } from '../../lib/dataplane/iptables/nft-rule.ts';
import { type Box, createBox } from './box.ts';
import { openNetlink } from './netlink.ts';
import { owning } from './owning.ts';

/** Rules of one table. */
interface RuleGroup {
  readonly family: Family;
  readonly table: string;
  /** Each begins with `-A CHAIN`. */
  readonly rules: readonly string[];
}

/** The program of a family, or of another release: `iptables-nft`, `ip6tables-nft-restore`. */
export type ToolPath = (tool: string) => string;

const WITHOUT_WORDS = '(without words)';

/**
 * What the agent has no words for: what nobody is known to use behind POSTROUTING of nat or PREROUTING of raw; and two ports,
 * for which iptables before 1.8.11 asks at once.
 */
const MAY_LACK_WORDS = new RegExp(
  [
    '-m (?:set|recent|physdev|mac|iprange|icmp6?|policy|limit|sctp|nfacct|ipvs) ',
    '-j (?:DNAT|REDIRECT|CONNMARK|LOG) ?',
    '--(?:tcp-flags|tcp-option|ct(?!state|dir)\\w+|mode nth|zone) ',
    ' -f ',
    '--sport .*--dport ',
    '255\\.0\\.255\\.0|ffff::ffff',
  ].join('|'),
);

/** Targets that are no chains. */
const TARGETS =
  /^(?:ACCEPT|DROP|RETURN|QUEUE|MASQUERADE|SNAT|DNAT|REDIRECT|NETMAP|MARK|CONNMARK|LOG|CT|NOTRACK|TPROXY|SET)$/;
const BASE_CHAINS = /^(?:PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING)$/;

/** The recorded rules of programs, by table: `*TABLE` and `*TABLE IPv6` begin one. */
export async function readCorpus(): Promise<readonly RuleGroup[]> {
  const groups = new Map<string, string[]>();
  let rules: string[] = [];
  for (const line of (await readFile(new URL('iptables-corpus.txt', import.meta.url), 'utf8')).split('\n')) {
    if (line.startsWith('*')) {
      rules = groups.get(line.slice(1)) ?? [];
      groups.set(line.slice(1), rules);
    } else if (line.startsWith('-A ')) rules.push(line);
    else assert.match(line, /^(?:#.*)?$/, 'a line that is neither a rule nor a comment');
  }
  return [...groups].map(([name, rules]) => {
    const [table = '', family = 'IPv4'] = name.split(' ');
    return { family: family as Family, table, rules };
  });
}

/** A network namespace for rules. */
export interface RuleLab extends AsyncDisposable {
  /**
   * Loads the rules, and compares for each what iptables prints with what is read over netlink. A rule that iptables or the
   * kernel refuses is a skipped subtest.
   *
   * @returns the rules as they are printed
   */
  compare(context: Pick<TestContext, 'test'>, group: RuleGroup): Promise<readonly string[]>;
}

/** @param path the tools to use */
export const createRuleLab = (path: ToolPath = (tool) => tool): Promise<RuleLab> =>
  owning(async (stack) => {
    const box = stack.use(await createBox());
    const netlink = stack.use(await openNetlink(box));
    const ipsets = new Set<string>();
    return {
      async compare(context, group) {
        const { family, table, rules } = group;
        for (const set of setsIn(rules)) {
          if (!ipsets.has(set)) await netlink.createIpset(family, set);
          ipsets.add(set);
        }
        const loaded = await load(box, context, group, path);
        const printed = await print(box, group, path);
        const read = await netlink.rules({ family, table });
        assert.deepEqual([printed.length, read.length], [loaded.length, loaded.length]);
        const texts = read.map((rule) => {
          const { spec, isExact } = iptablesRule(family, rule);
          return isExact ? `-A ${rule.chain} ${spec}`.trimEnd() : `-A ${rule.chain} ${WITHOUT_WORDS}`;
        });
        const expected = byChain(printed);
        for (const [chain, lines = []] of Object.entries(byChain(texts))) {
          const known = (expected[chain] ?? []).map((line, index) => {
            const isUnknown = lines[index]?.endsWith(WITHOUT_WORDS) === true && MAY_LACK_WORDS.test(line);
            return isUnknown ? lines[index] : line;
          });
          assert.deepEqual(lines, known);
        }
        return printed;
      },
    };
  });

const toolOf = (family: Family) => (family === 'IPv4' ? 'iptables-nft' : 'ip6tables-nft');

/** Makes these the only rules of the table; those that are refused are skipped. Returns the others. */
async function load(
  box: Box,
  context: Pick<TestContext, 'test'>,
  { family, table, rules }: RuleGroup,
  path: ToolPath,
): Promise<readonly string[]> {
  const restore = async (some: readonly string[]) => {
    const chains = chainsIn(rules).map((chain) => `:${chain} - [0:0]`);
    const input = [`*${table}`, ...chains, ...some, 'COMMIT', ''].join('\n');
    return await box.run(path(`${toolOf(family)}-restore`), [], { input });
  };
  if ((await restore(rules)).code === 0) return rules;
  const accepted: string[] = [];
  for (const rule of rules) {
    const { code, stderr } = await restore([rule]);
    if (code === 0) accepted.push(rule);
    else context.test(rule, { skip: `not here: ${stderr.trim().replaceAll('\n', ' ')}` });
  }
  const { code, stderr } = await restore(accepted);
  assert.equal(code, 0, stderr);
  return accepted;
}

async function print(box: Box, { family, table }: RuleGroup, path: ToolPath): Promise<readonly string[]> {
  const { code, stdout, stderr } = await box.run(path(toolOf(family)), ['-t', table, '-S']);
  assert.equal(code, 0, stderr);
  // 1.8.7 ends a rule without a target with a space.
  return stdout.split('\n').flatMap((line) => (line.startsWith('-A ') ? [line.trimEnd()] : []));
}

/** Each sorts the chains in its own way, and none the rules of a chain. */
function byChain(lines: readonly string[]): Readonly<Record<string, readonly string[] | undefined>> {
  return { ...Object.groupBy(lines, (line) => line.split(' ')[1] ?? '') };
}

/** The ipsets that the rules ask for. */
function setsIn(rules: readonly string[]): ReadonlySet<string> {
  return new Set(
    rules.flatMap((rule) => [...rule.matchAll(/ --match-set (\S+)/g)].flatMap(([, name]) => name ?? [])),
  );
}

/** The chains that the rules are in or lead to. */
function chainsIn(rules: readonly string[]): readonly string[] {
  const chains = rules.flatMap((rule) => {
    const words = / (?:-j|-g) (\S+)/.exec(rule.replace(/"(?:\\.|[^"\\])*"/g, '""'));
    return [rule.split(' ')[1], words?.[1]].filter((one) => one !== undefined);
  });
  return [...new Set(chains)].filter((chain) => !TARGETS.test(chain) && !BASE_CHAINS.test(chain));
}
