import type { Family } from '../cidr/address.ts';
import { COMMENT_START, type Dataplane } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Host } from '../dataplane/host.ts';
import { findCommand } from '../dataplane/iptables/detect.ts';
import { inTurns, legacyTables } from '../dataplane/iptables/legacy.ts';
import { ruleTarget } from '../dataplane/iptables/rule.ts';
import { createTool, IPTABLES_OF } from '../dataplane/iptables/tool.ts';
import { whyNoNetlink } from '../dataplane/netlink.ts';
import { HOOK, SRCNAT, TABLE } from '../dataplane/nftables/names.ts';
import type { IptablesMode } from '../dataplane/options.ts';
import { NetlinkError } from '../netlink/error.ts';
import { TABLE_FAMILIES } from '../netlink/messages.ts';
import type { NatChain } from '../netlink/replies.ts';
import { adviceText } from '../text/advice.ts';
import { truncated, truncatedText } from '../text/words.ts';
import { programOf } from './programs.ts';
import { type Branch, readBranches } from './read-nftables.ts';
import type { Position, RuleKind, Suspect, Suspects } from './suspects.ts';

interface SuspectOptions {
  readonly families: readonly Family[];
  /** The chain of the agent in `nat`, which is not read. */
  readonly ownChain: string;
  /** The mode that the agent uses, and how its commands are called; undefined if its rules are in nftables. */
  readonly iptables: Dataplane['iptables'];
}

interface Reader {
  readonly host: Host;
  readonly options: SuspectOptions;
  readonly postrouting: string[];
  readonly unread: string[];
}

/** A node has a few; any program can make more. */
const MOST_BASES = 100;

/** A chain where packets meet NAT, or are kept from it, and what its rules do. */
interface MetChain {
  readonly family: Family;
  /** Packets meet lower ones first. */
  readonly priority: number;
  /** Where packets meet its first rule. */
  readonly position: Position;
  /** Such as `table ip nat`. */
  readonly table: string;
  readonly chain: string;
  /** What comes before the name of a chain in the command that shows it. */
  readonly show: readonly string[];
  /** Whether each of its rules is shown by the chain that it leads to, as programs of iptables have chains of their own. */
  readonly areShownApart: boolean;
  readonly branches: readonly Branch[];
}

/** A suspect with the priority of its chain. */
interface Placed {
  readonly priority: number;
  readonly suspect: Suspect;
}

/**
 * Names what else does NAT on the node: base chains of type nat at postrouting and rules that turn connection tracking off at
 * prerouting, whatever their tables are called, and those of iptables in legacy mode. Beside that it lists, unread, the first rules
 * of POSTROUTING of iptables. It fails never: what cannot be read is told.
 */
export async function readSuspects(host: Host, options: SuspectOptions): Promise<Suspects> {
  const reader: Reader = { host, options, postrouting: [], unread: [] };
  const listed = await unlessRefused(reader, 'nf_tables', async () => await listBases(reader));
  const found: Placed[] = [];
  for (const family of options.families) {
    const met = (listed ?? []).filter((base) => [family, 'inet'].includes(base.family));
    if (met.length > MOST_BASES) reader.unread.push(`more than ${MOST_BASES} chains of NAT (${family})`);
    for (const base of met.slice(0, MOST_BASES))
      found.push(...suspectsOf(await readNative(reader, family, base), options));
    await listRules(reader, family, 'nft', 'nat');
    for (const table of ['raw', 'nat'] as const)
      found.push(...suspectsOf(await readLegacy(reader, family, table), options));
  }
  const suspects = found.toSorted((a, b) => a.priority - b.priority).map(({ suspect }) => suspect);
  return { suspects, postrouting: reader.postrouting, unread: [...new Set(reader.unread)] };
}

/** The base chains of other programs. A table with the name of the agent's, but without its comment, is one of them. */
async function listBases({ host: { netlink }, unread }: Reader): Promise<readonly NatChain[]> {
  if (netlink === undefined) {
    unread.push(`nf_tables: netlink does not work: ${whyNoNetlink(netlink)}`);
    return [];
  }
  return await netlink.use(async (requests) => {
    const others: NatChain[] = [];
    for (const base of await requests.natChains()) {
      const { family, table } = base;
      const isNamed = family !== 'inet' && table === TABLE;
      const { comment = '' } = (isNamed ? await requests.table({ family, table }) : undefined) ?? {};
      if (!comment.startsWith(COMMENT_START)) others.push(base);
    }
    return others;
  });
}

async function unlessRefused<Answer>(
  { unread }: Reader,
  what: string,
  read: () => Promise<Answer>,
): Promise<Answer | undefined> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof NetlinkError || error instanceof DataplaneError)) throw error;
    const said = error instanceof DataplaneError ? adviceText(error) : error.message;
    if (error.failure !== 'unsupported') unread.push(`${what}: ${said}`);
    return undefined;
  }
}

/** Whether it is a chain that iptables-nft has made, which keeps its tables in nf_tables as `ip nat`, `ip6 nat` and so on. */
function isOfIptables({ family, table, chain }: NatChain): boolean {
  return family !== 'inet' && ['raw', 'nat'].includes(table) && ['PREROUTING', 'POSTROUTING'].includes(chain);
}

async function readNative(reader: Reader, family: Family, base: NatChain): Promise<MetChain> {
  const { netlink } = reader.host;
  const { iptables, ownChain } = reader.options;
  const { word } = TABLE_FAMILIES[base.family];
  const table = `table ${word} ${base.table}`;
  const areShownApart = isOfIptables(base);
  const read = async () =>
    netlink ? await readBranches(netlink, base, areShownApart ? ownChain : undefined) : [];
  return {
    family,
    priority: base.priority,
    position: positionOf(base, iptables),
    table,
    chain: base.chain,
    show: areShownApart
      ? [IPTABLES_OF[family], '-t', base.table, '-S']
      : ['nft', 'list', 'chain', word, base.table],
    areShownApart,
    branches: (await unlessRefused(reader, `${table}, chain ${base.chain}`, read)) ?? [],
  };
}

/** Of two NAT chains with one priority the kernel runs the one that was registered later first, and tells nobody which that is. */
function positionOf(base: NatChain, iptables: Dataplane['iptables']): Position {
  if (base.isRaw) return 'before';
  if (iptables?.mode === 'nft' && isOfIptables(base)) return 'before';
  const own = iptables === undefined ? HOOK.priority : SRCNAT;
  if (base.priority === own) return 'unknown';
  return base.priority < own ? 'before' : 'after';
}

/** The rules of a chain by the program that their names say, and by whether packets meet them before the agent's jump. */
function suspectsOf(met: MetChain, { iptables }: SuspectOptions): readonly Placed[] {
  const { family, priority, table, branches } = met;
  let { position } = met;
  const placed = branches.map((branch) => {
    if (branch.isOwn && iptables !== undefined) position = 'after';
    return { branch, position, program: programOf([table, ...branch.evidence])?.name };
  });
  const groups = Map.groupBy(placed, (one) => `${one.program} ${one.position}`);
  return [...groups.values()].flatMap(([first, ...more]) => {
    if (first === undefined) return [];
    const group = [first, ...more].map(({ branch }) => branch);
    const rules = sumOf(group);
    if (Object.keys(rules).length === 0) return [];
    const chains = met.areShownApart ? group.map(({ chain }) => chain ?? met.chain) : [met.chain];
    const suspect = {
      family,
      position: first.position,
      program: programOf([table, ...group.flatMap(({ evidence }) => evidence)]),
      place: `${table}, ${chainsText(chains)}`,
      rules,
      show: command([...met.show, chains[0] ?? met.chain]),
    };
    return [{ priority, suspect }];
  });
}

function sumOf(branches: readonly Branch[]): Branch['rules'] {
  const sum: Branch['rules'] = {};
  for (const { rules } of branches)
    for (const [kind, count] of Object.entries(rules) as [RuleKind, number][])
      sum[kind] = (sum[kind] ?? 0) + count;
  return sum;
}

const MOST_CHAINS = 3;

function chainsText(names: readonly string[]): string {
  const chains = [...new Set(names)];
  return `${chains.length === 1 ? 'chain' : 'chains'} ${truncatedText(chains, MOST_CHAINS, String)}`;
}

/** A command with names that other programs have chosen: none if one of them could mean something else to a shell. */
function command(words: readonly string[]): string | undefined {
  return words.every((word) => /^[\w.-]+$/.test(word)) ? words.join(' ') : undefined;
}

/** In most cases, nf_tables names such a rule all the same. */
const UNLISTED =
  'iptables cannot list it, because of a rule of nft(8) or of an extension that is not installed here';

const MOST_LINES = 10;

const BUILT_IN = { raw: 'PREROUTING', nat: 'POSTROUTING' } as const;

/** The rules of a built-in chain as iptables prints them; those of POSTROUTING also for people. Empty if nothing is in use there. */
async function listRules(
  reader: Reader,
  family: Family,
  mode: IptablesMode,
  table: keyof typeof BUILT_IN,
): Promise<readonly string[]> {
  const { host, options, postrouting } = reader;
  const chain = BUILT_IN[table];
  const isOwn = options.iptables?.mode === mode;
  const list = async () => {
    // Only root may know. To list a table that is not in use would make it.
    const isUsed =
      mode === 'nft'
        ? await host.netlink?.has({ family, table, chain })
        : (await legacyTables(host, family))?.includes(table);
    if (!(isUsed ?? isOwn)) return [];
    const found = isOwn ? options.iptables : await findCommand(host, mode);
    // What is in nf_tables is read without iptables.
    if (found === undefined && mode === 'nft') return [];
    if (found === undefined)
      throw new DataplaneError('missing', 'it is in use, but not installed here', 'install it');
    const rules = await createTool(inTurns(host, mode), family, found.suffix).list(chain, table);
    if (rules === undefined)
      throw new DataplaneError('blocked', UNLISTED, 'use an image that has the extension');
    const others = rules.filter((rule) => table === 'nat' && ruleTarget(rule) !== options.ownChain);
    const shown = `${IPTABLES_OF[family]}${found.suffix} -t nat -S POSTROUTING`;
    postrouting.push(...truncated(others, MOST_LINES, (rule) => `${shown}: ${rule}`));
    return rules;
  };
  const what = `${IPTABLES_OF[family]}-${mode}, table ${table}, chain ${chain}`;
  return (await unlessRefused(reader, what, list)) ?? [];
}

/** The rules of a built-in chain of the legacy mode. Where they lead to is not read: each chain costs a process that reads the whole table. */
async function readLegacy(reader: Reader, family: Family, table: keyof typeof BUILT_IN): Promise<MetChain> {
  const { iptables, ownChain } = reader.options;
  const chain = BUILT_IN[table];
  const isBeside = table === 'nat' && iptables?.mode === 'nft';
  const rules = await listRules(reader, family, 'legacy', table);
  return {
    family,
    priority: table === 'raw' ? Number.MIN_SAFE_INTEGER : SRCNAT,
    position: isBeside ? 'unknown' : 'before',
    table: `${IPTABLES_OF[family]}-legacy, table ${table}`,
    chain,
    show: [`${IPTABLES_OF[family]}-legacy`, '-t', table, '-S'],
    areShownApart: true,
    branches: rules.map((rule) => {
      const target = ruleTarget(rule);
      const isOwn = table === 'nat' && target === ownChain;
      const kind = isOwn ? undefined : legacyKind(table, rule, target);
      return {
        rules: kind === undefined ? {} : { [kind]: 1 },
        chain: kind === 'leads' ? target : undefined,
        evidence: [`-A ${chain} ${rule}`],
        isOwn,
      };
    }),
  };
}

function legacyKind(table: 'raw' | 'nat', rule: string, target: string | undefined): RuleKind | undefined {
  if (table === 'raw') return /-j (?:NOTRACK|CT .*--notrack)/.test(rule) ? 'untracks' : undefined;
  if (target === 'MASQUERADE') return 'masquerades';
  if (/^(?:SNAT|NETMAP|SAME)$/.test(target ?? '')) return 'snat';
  if (target === 'ACCEPT' || target === 'RETURN') return 'accepts';
  return target === undefined || /^(?:LOG|NFLOG|MARK|CONNMARK)$/.test(target) ? undefined : 'leads';
}
