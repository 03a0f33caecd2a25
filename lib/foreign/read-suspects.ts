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

export interface SuspectOptions {
  readonly families: readonly Family[];
  /** The chain of the agent in `nat`, which is not read. */
  readonly ownChain: string;
  /** The mode that the agent uses, and how its commands are called; undefined if its rules are in nftables. */
  readonly iptables: Dataplane['iptables'];
}

interface Reader {
  readonly host: Host;
  readonly options: SuspectOptions;
  readonly unread: string[];
}

/** A node has a few; any program can make more. */
const MOST_BASES = 100;

/** A suspect with the priority of its chain: packets meet lower ones first. */
interface Placed {
  readonly priority: number;
  readonly suspect: Suspect;
}

/**
 * Names what else does NAT on the node: base chains of type nat at postrouting and rules that turn connection tracking off at
 * prerouting, whatever their tables are called, and those of iptables in legacy mode. It fails never: what cannot be read is told.
 */
export async function readSuspects(host: Host, options: SuspectOptions): Promise<Suspects> {
  const reader: Reader = { host, options, unread: [] };
  const listed = await unlessRefused(reader, 'nf_tables', async () => await listBases(reader));
  const found: Placed[] = [];
  for (const family of options.families) {
    const met = (listed ?? []).filter((base) => [family, 'inet'].includes(base.family));
    if (met.length > MOST_BASES) reader.unread.push(`more than ${MOST_BASES} chains of NAT (${family})`);
    for (const base of met.slice(0, MOST_BASES)) found.push(...(await readNative(reader, family, base)));
    for (const table of ['raw', 'nat'] as const) found.push(...(await readLegacy(reader, family, table)));
    if (await isCilium(host)) found.push({ priority: Number.MAX_SAFE_INTEGER, suspect: bpfSuspect(family) });
  }
  const suspects = found.toSorted((a, b) => a.priority - b.priority).map(({ suspect }) => suspect);
  return { suspects, unread: [...new Set(reader.unread)] };
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
  { unread }: Pick<Reader, 'unread'>,
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

async function readNative(reader: Reader, family: Family, base: NatChain): Promise<readonly Placed[]> {
  const { host, options } = reader;
  const { netlink } = host;
  if (netlink === undefined) return [];
  const table = `table ${TABLE_FAMILIES[base.family].word} ${base.table}`;
  const ownChain = isOfIptables(base) ? options.ownChain : undefined;
  const read = () => readBranches(netlink, base, ownChain);
  const branches = (await unlessRefused(reader, `${table}, chain ${base.chain}`, read)) ?? [];
  let position = positionOf(base, options.iptables);
  const groups = new Map<string, { readonly position: Position; readonly branches: Branch[] }>();
  for (const branch of branches) {
    if (branch.isOwn && options.iptables?.mode === 'nft') position = 'after';
    const program = programOf([table, ...branch.evidence])?.name;
    const key = `${program} ${position}`;
    const group = groups.get(key) ?? { position, branches: [] };
    group.branches.push(branch);
    groups.set(key, group);
  }
  return [...groups.values()].flatMap((group) => {
    const rules = sumOf(group.branches);
    const chains = isOfIptables(base) ? group.branches.map(({ chain }) => chain ?? base.chain) : [base.chain];
    const place = `${table}, ${chainsText(chains)}`;
    const program = programOf([table, ...group.branches.flatMap(({ evidence }) => evidence)]);
    const show = isOfIptables(base)
      ? command(`${IPTABLES_OF[family]} -t`, base.table, '-S', chains[0] ?? base.chain)
      : command('nft list chain', TABLE_FAMILIES[base.family].word, base.table, base.chain);
    const suspect = { family, position: group.position, program, place, rules, show };
    return Object.keys(rules).length === 0 ? [] : [{ priority: base.priority, suspect }];
  });
}

/** Of two NAT chains with one priority the kernel runs the one that was registered later first, and tells nobody which that is. */
function positionOf(base: NatChain, iptables: Dataplane['iptables']): Position {
  if (base.isRaw) return 'before';
  if (iptables?.mode === 'nft' && isOfIptables(base)) return 'before';
  const own = iptables === undefined ? HOOK.priority : SRCNAT;
  if (base.priority === own) return 'unknown';
  return base.priority < own ? 'before' : 'after';
}

function sumOf(branches: readonly Pick<Branch, 'rules'>[]): Branch['rules'] {
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
function command(start: string, ...words: readonly string[]): string | undefined {
  return words.every((word) => /^[\w.-]+$/.test(word)) ? [start, ...words].join(' ') : undefined;
}

const MOST_LINES = 10;

/** The first rules of POSTROUTING in `nat`, without the agent's jump, and what could not be listed. */
export interface PostroutingListing {
  readonly lines: readonly string[];
  /** In the words of `Suspects`. */
  readonly unread: readonly string[];
}

/** The rules as iptables prints them, in the modes that the node uses, unread. For people. */
export async function listPostrouting(host: Host, options: SuspectOptions): Promise<PostroutingListing> {
  const [lines, unread]: [string[], string[]] = [[], []];
  for (const family of options.families)
    for (const mode of ['nft', 'legacy'] as const) {
      const isOwn = options.iptables?.mode === mode;
      const isUsed =
        mode === 'nft'
          ? await host.netlink?.has({ family, table: 'nat', chain: 'POSTROUTING' })
          : (await legacyTables(host, family))?.includes('nat');
      if (!(isUsed ?? isOwn)) continue;
      const found = isOwn ? options.iptables : await findCommand(host, mode);
      if (found === undefined) continue;
      const tool = createTool(inTurns(host, mode), family, found.suffix);
      const list = () => tool.listWhole('POSTROUTING', 'nat');
      const specs = await unlessRefused({ unread }, placeText(family, mode, 'nat', 'POSTROUTING'), list);
      const others = (specs ?? []).filter((spec) => ruleTarget(spec) !== options.ownChain);
      const command = `${IPTABLES_OF[family]}${found.suffix} -t nat -S POSTROUTING`;
      lines.push(...truncated(others, MOST_LINES, (spec) => `${command}: ${spec}`));
    }
  return { lines, unread };
}

function placeText(family: Family, mode: IptablesMode, table: string, chain: string): string {
  return `${IPTABLES_OF[family]}-${mode}, table ${table}, chain ${chain}`;
}

const LEGACY_CHAIN = { raw: 'PREROUTING', nat: 'POSTROUTING' } as const;

/** The rules of a built-in chain of the legacy mode. Where they lead to is not read: each chain costs a process that reads the whole table. */
async function readLegacy(reader: Reader, family: Family, table: 'raw' | 'nat'): Promise<readonly Placed[]> {
  const { host, options } = reader;
  // Only root may know. To list a table that is not in use would make it.
  const inUse = await legacyTables(host, family);
  if (inUse?.includes(table) !== true) return [];
  const [chain, isOwn] = [LEGACY_CHAIN[table], options.iptables?.mode === 'legacy'];
  const what = placeText(family, 'legacy', table, chain);
  const list = async () => {
    const found = isOwn ? options.iptables : await findCommand(host, 'legacy');
    if (found === undefined)
      throw new DataplaneError('missing', 'it is in use, but not installed here', 'install it');
    return await createTool(inTurns(host, 'legacy'), family, found.suffix).listWhole(chain, table);
  };
  const specs = (await unlessRefused(reader, what, list)) ?? [];
  const isBeside = table === 'nat' && !isOwn && options.iptables !== undefined;
  let position: Position = isBeside ? 'unknown' : 'before';
  const placed: Placed[] = [];
  for (const spec of specs) {
    const target = ruleTarget(spec);
    if (isOwn && target === options.ownChain) position = 'after';
    const kind = target === options.ownChain ? undefined : legacyKind(table, spec, target);
    if (kind === undefined) continue;
    const program = programOf([`-A ${chain} ${spec}`]);
    const show = command(
      `${IPTABLES_OF[family]}-legacy -t`,
      table,
      '-S',
      kind === 'leads' ? (target ?? chain) : chain,
    );
    const place = kind === 'leads' ? `${what}, which leads to ${target}` : what;
    placed.push({
      priority: table === 'raw' ? Number.MIN_SAFE_INTEGER : SRCNAT,
      suspect: { family, position, program, place, rules: { [kind]: 1 }, show },
    });
  }
  return merged(placed);
}

function legacyKind(table: 'raw' | 'nat', spec: string, target: string | undefined): RuleKind | undefined {
  if (table === 'raw') return /-j (?:NOTRACK|CT .*--notrack)/.test(spec) ? 'untracks' : undefined;
  if (target === 'MASQUERADE') return 'masquerades';
  if (/^(?:SNAT|NETMAP|SAME)$/.test(target ?? '')) return 'snat';
  if (target === 'ACCEPT' || target === 'RETURN') return 'accepts';
  return target === undefined || /^(?:LOG|NFLOG|MARK|CONNMARK)$/.test(target) ? undefined : 'leads';
}

/** Suspects that differ in nothing but their rules, as one. */
function merged(placed: readonly Placed[]): readonly Placed[] {
  const keyOf = ({ suspect: { position, program, place } }: Placed) =>
    `${position} ${program?.name} ${place}`;
  return [...Map.groupBy(placed, keyOf).values()].flatMap((members) =>
    members.slice(0, 1).map(({ priority, suspect }) => ({
      priority,
      suspect: { ...suspect, rules: sumOf(members.map((one) => one.suspect)) },
    })),
  );
}

/** Links that Cilium makes, also as Dataplane V2 of GKE. */
async function isCilium({ readText }: Host): Promise<boolean> {
  return /^ *cilium_(?:host|net):/m.test((await readText('/proc/net/dev')) ?? '');
}

function bpfSuspect(family: Family): Suspect {
  const place = 'BPF programs at its links, which cannot be read';
  return {
    family,
    position: 'unknown',
    program: programOf(['cilium']),
    place,
    rules: {},
    show: 'cilium-dbg status',
  };
}
