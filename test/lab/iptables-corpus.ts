import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import type { TestContext } from 'node:test';
import { iptablesRule } from '../../lib/dataplane/iptables/nft-rule.ts';
import type { Family } from '../../lib/netlink/messages.ts';
import { createBox } from './box.ts';
import { openNetlink } from './netlink.ts';

/** Rules of one table. */
interface RuleGroup {
  readonly family: Family;
  readonly table: string;
  /** Each begins with `-A CHAIN`. */
  readonly rules: readonly string[];
}

/** The program of a family, or of another release: `iptables-nft`, `ip6tables-nft-restore`. */
export type ToolPath = (tool: string) => string;

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

/**
 * Loads the rules, and compares for each what iptables prints with what is read over netlink. A rule that iptables or the
 * kernel refuses is a skipped subtest.
 */
export async function compareRules(
  context: Pick<TestContext, 'test'>,
  { family, table, rules }: RuleGroup,
  path: ToolPath,
): Promise<void> {
  await using box = await createBox();
  await using netlink = await openNetlink(box);
  const tool = family === 'IPv4' ? 'iptables-nft' : 'ip6tables-nft';
  const restore = async (added: readonly string[], ...args: readonly string[]) => {
    const input = [
      `*${table}`,
      ...chainsIn(rules).map((chain) => `:${chain} - [0:0]`),
      ...added,
      'COMMIT',
      '',
    ];
    return await box.run(path(`${tool}-restore`), args, { input: input.join('\n') });
  };
  const loaded: string[] = [];
  if ((await restore(rules)).code === 0) loaded.push(...rules);
  else
    for (const rule of rules) {
      const { code, stderr } = await restore([rule], '--test');
      if (code === 0 && (await restore([...loaded, rule])).code === 0) loaded.push(rule);
      else context.test(rule, { skip: `not here: ${stderr.trim().split('\n')[0]}` });
    }
  const { code, stdout, stderr } = await box.run(path(tool), ['-t', table, '-S']);
  assert.equal(code, 0, stderr);
  const printed = stdout.split('\n').filter((line) => line.startsWith('-A '));
  const read = await netlink.rules({ family, table });
  assert.deepEqual([printed.length, read.length], [loaded.length, loaded.length]);
  const texts = read.map((rule) => {
    const { spec, isExact } = iptablesRule(family, rule);
    return `-A ${rule.chain} ${spec}${isExact ? '' : ' (not exact)'}`.trimEnd();
  });
  // Each sorts the chains in its own way, and none the rules of a chain.
  const byChain = (lines: readonly string[]) =>
    Object.groupBy(
      lines.map((line) => line.trimEnd()),
      (line) => line.split(' ')[1] ?? '',
    );
  assert.deepEqual({ ...byChain(texts) }, { ...byChain(printed) });
}

/** The chains that the rules are in or lead to. */
function chainsIn(rules: readonly string[]): readonly string[] {
  const chains = rules.flatMap((rule) => {
    const words = / (?:-j|-g) (\S+)/.exec(rule.replace(/"(?:\\.|[^"\\])*"/g, '""'));
    return [rule.split(' ')[1], words?.[1]].filter((one) => one !== undefined);
  });
  return [...new Set(chains)].filter((chain) => !TARGETS.test(chain) && !BASE_CHAINS.test(chain));
}
