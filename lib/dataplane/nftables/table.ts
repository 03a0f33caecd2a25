import type { Address, Family } from '../../cidr/address.ts';
import type { Prefix } from '../../cidr/prefix.ts';
import { PrefixMap } from '../../cidr/prefix-map.ts';
import { complement, formatRange, type Range, type RangeSet, rangeOf } from '../../cidr/ranges.ts';
import type { Hook } from '../../netlink/replies.ts';
import { allowedSources, flatten } from '../../policy/flatten.ts';
import { type AddressRequest, type Entry, type Policy, verdictElsewhere } from '../../policy/policy.ts';
import { printable } from '../../text/escape.ts';
import { COMMENT_START } from '../dataplane.ts';
import type { RuleOptions } from '../options.ts';
import { portRules } from '../ports.ts';
import { renderedOnce } from '../rendered.ts';
import {
  CHAIN,
  FROM_SET,
  HOOK,
  INVALID_CHAIN,
  INVALID_HOOK,
  NFT_FAMILY,
  NOT_FROM_SET,
  SET,
  tableName,
} from './names.ts';
import {
  chainProperties,
  ruleText,
  setProperties,
  type Table,
  type TableChain,
  type TableRule,
  type TableSet,
  tableProperties,
} from './ruleset.ts';
import { INVALID, LOCAL, PROTOCOL_NUMBERS, RANDOM_FULLY, type Statement } from './statement.ts';

/** The table of a policy. */
export interface PolicyTable extends Table {
  readonly comment: string;
  readonly sets: readonly MeantSet[];
  readonly chains: readonly MeantChain[];
  /** The ranges of the set of destinations, each with the entry that asks for it. */
  readonly segments: readonly (Range & { readonly entry: Entry })[];
}

/** What the agent writes has a comment each. */
export type MeantSet = TableSet & { readonly comment: string; readonly ranges: readonly Range[] };
export type MeantChain = TableChain & { readonly comment: string; readonly hook: Hook };

/**
 * The table in the order in which a packet meets it. A packet costs one lookup in the set, for any size of the set.
 * Exceptions are not in the set.
 */
export const renderTable = renderedOnce(render);

/**
 * Packets whose source is an address of the link by which they leave. Masquerading would only change their ports, and so reset
 * connections that began before the rules. Any local source would be too much: what DNAT or a mark sends out by another link.
 */
const OF_NODE = { kind: 'match', key: 'fib saddr . oif type', range: { first: LOCAL, last: LOCAL } } as const;
const RETURN: Statement = { kind: 'verdict', verdict: 'return' };
const COUNTER: Statement = { kind: 'counter' };

function render(policy: Policy, options: RuleOptions): PolicyTable {
  const { family } = policy;
  const segments = flatten(policy).filter(({ entry }) => entry.verdict === 'not_masqueraded');
  const { destination } = addressKeys(family);
  const local = { kind: 'match', key: 'fib daddr type', range: { first: LOCAL, last: LOCAL } } as const;
  const sources = renderSources(policy);
  const rules = [
    rule('addresses of the node itself', local, RETURN),
    ...(sources === undefined ? [] : [rule(sources.why, sources.leftAlone, COUNTER, RETURN)]),
    rule('left alone by the config', { kind: 'match', key: destination, set: SET }, RETURN),
    ...addressRules(policy).flatMap(({ prefix, as }) => renderAddress(family, prefix, as, options)),
    ...renderMasquerade([], undefined, options, 'everything else is masqueraded'),
  ];
  return {
    family,
    comment: commentOf('kept by ip-masq-agent, changes are undone'),
    flags: [],
    sets: [
      {
        name: SET,
        comment: commentOf('what the config leaves alone'),
        properties: [...setType(family), 'counter'],
        ranges: segments,
      },
      ...(sources === undefined ? [] : [sources.set]),
    ],
    chains: [
      { name: CHAIN, comment: commentOf('what is masqueraded'), hook: HOOK, rules },
      ...renderInvalid(family, sources, options),
    ],
    objects: [],
    others: 0,
    segments,
  };
}

/** The same table with other names of its sets. */
export function withNames(table: PolicyTable, nameOf: (set: MeantSet) => string): PolicyTable {
  const names = new Map(table.sets.map((set) => [set.name, nameOf(set)]));
  const named = (name: string) => names.get(name) ?? name;
  const renamed = (one: Statement): Statement =>
    one.kind === 'match' && 'set' in one ? { ...one, set: named(one.set) } : one;
  return {
    ...table,
    sets: table.sets.map((set) => ({ ...set, name: named(set.name) })),
    chains: table.chains.map((chain) => ({
      ...chain,
      rules: chain.rules.map((one) => ({ ...one, statements: one.statements.map(renamed) })),
    })),
  };
}

function addressKeys(family: Family) {
  return family === 'IPv4'
    ? ({ source: 'ip saddr', destination: 'ip daddr' } as const)
    : ({ source: 'ip6 saddr', destination: 'ip6 daddr' } as const);
}

function setType(family: Family): readonly string[] {
  return [`type ${NFT_FAMILY[family].type}`, 'flags interval'];
}

function rule(why: string, ...statements: readonly Statement[]): TableRule {
  return { statements, comment: commentOf(why) };
}

/** The kernel never tracks neighbour discovery, which meets this chain between ports of a bridge too (bridge-nf-call-ip6tables). */
const NOT_ICMPV6: Statement = {
  kind: 'match',
  key: 'meta l4proto',
  isNot: true,
  range: { first: PROTOCOL_NUMBERS['ipv6-icmp'], last: PROTOCOL_NUMBERS['ipv6-icmp'] },
};

/**
 * The chain for packets that conntrack assigns to no connection, such as a FIN after its entry has expired, or does not track: the
 * kernel takes them past every chain of type nat, so they leave with the address of the pod (nf_nat_inet_fn in nf_nat_core.c).
 * One rule, because a negated lookup does not count in the element that it finds (nft_lookup.c).
 */
function renderInvalid(
  family: Family,
  sources: Sources | undefined,
  { invalidPackets = 'off' }: RuleOptions,
): readonly MeantChain[] {
  if (invalidPackets === 'off') return [];
  const { destination } = addressKeys(family);
  const local = { kind: 'match', isNot: true, range: { first: LOCAL, last: LOCAL } } as const;
  const statements: readonly Statement[] = [
    { kind: 'match', key: 'ct state', isNot: true, mask: INVALID, value: 0n },
    ...(family === 'IPv6' ? [NOT_ICMPV6] : []),
    { ...local, key: 'fib saddr type' },
    { ...local, key: 'fib daddr type' },
    ...(sources === undefined ? [] : [sources.allowed]),
    { kind: 'match', key: destination, isNot: true, set: SET },
    COUNTER,
    ...(invalidPackets === 'drop' ? [{ kind: 'verdict', verdict: 'drop' } as const] : []),
  ];
  return [
    {
      name: INVALID_CHAIN,
      comment: commentOf('what NAT does not see'),
      hook: INVALID_HOOK,
      rules: [rule('would leave with the address of a pod', ...statements)],
    },
  ];
}

interface Sources {
  readonly set: MeantSet;
  /** Asks for packets that are left alone, and for all others. */
  readonly leftAlone: Statement;
  readonly allowed: Statement;
  readonly why: string;
}

/** One set: of the sources that are left alone, if nothing else is said of sources; otherwise of all others. */
function renderSources(policy: Policy): Sources | undefined {
  const allowed = allowedSources(policy);
  if (allowed === undefined) return undefined;
  const { family } = policy;
  const set = (name: string, what: string, { ranges }: RangeSet): MeantSet => {
    return { name, comment: commentOf(what), properties: setType(family), ranges };
  };
  const match = { kind: 'match', key: addressKeys(family).source } as const;
  if (verdictElsewhere(policy) === 'masqueraded')
    return {
      set: set(NOT_FROM_SET, 'whose packets are left alone', complement(allowed)),
      leftAlone: { ...match, set: NOT_FROM_SET },
      allowed: { ...match, isNot: true, set: NOT_FROM_SET },
      why: 'packets from here are not masqueraded',
    };
  return {
    set: set(FROM_SET, 'whose packets are looked at', allowed),
    leftAlone: { ...match, isNot: true, set: FROM_SET },
    allowed: { ...match, set: FROM_SET },
    why: 'packets from elsewhere are not masqueraded',
  };
}

/**
 * The destinations that are masqueraded with an address of their own, the longest prefix first. They are rules, not elements
 * of a map: a rule counts, and all rules change at once, but a packet can miss an element that changes.
 */
function addressRules({ entries }: Policy): readonly Entry[] {
  const masqueraded = entries.filter(({ verdict }) => verdict === 'masqueraded');
  const all = new PrefixMap<Entry>();
  for (const entry of masqueraded) all.set(entry.prefix, entry);
  return masqueraded
    .filter(({ prefix, as }) => all.nearestWider(prefix)?.as?.range !== as?.range)
    .toSorted((a, b) => b.prefix.length - a.prefix.length);
}

/** The rules for one destination. Without an address of the node, they masquerade as for all other destinations. */
function renderAddress(
  family: Family,
  prefix: Prefix,
  as: AddressRequest | undefined,
  options: RuleOptions,
): readonly TableRule[] {
  const match: Statement = { kind: 'match', key: addressKeys(family).destination, range: rangeOf(prefix) };
  const address = as?.candidates?.[0];
  const why =
    as && (address === undefined ? `no address in ${as.range.text}` : `with the address in ${as.range.text}`);
  const asked = prefix.length === 0 ? [] : [match];
  return renderMasquerade(asked, address, options, why ?? 'with the address of the link');
}

/** The rules that masquerade, as `portRules` says; with that address or, without one, all but the node's own connections. */
function renderMasquerade(
  asked: readonly Statement[],
  address: Address | undefined,
  options: RuleOptions,
  why: string,
): readonly TableRule[] {
  const ofNode = rule('the node itself, from an address of the link', ...asked, OF_NODE, RETURN);
  const rules = portRules(options).map(({ protocol, share, isRandom }) => {
    const number = protocol && PROTOCOL_NUMBERS[protocol];
    const isSome = share !== undefined && share.size !== share.left;
    return rule(
      why,
      ...asked,
      ...(number === undefined
        ? []
        : [{ kind: 'match', key: 'meta l4proto', range: { first: number, last: number } } as const]),
      ...(isSome ? [{ kind: 'chance', size: share.size, left: share.left } as const] : []),
      COUNTER,
      {
        kind: address === undefined ? 'masquerade' : 'snat',
        ...(address !== undefined && { address: { first: address.value, last: address.value } }),
        ...(share !== undefined && { ports: share.range }),
        flags: isRandom ? RANDOM_FULLY : 0,
      },
    );
  });
  return address === undefined ? [ofNode, ...rules] : rules;
}

/** The input of nft -f that makes the tables of all policies, and replaces existing ones. */
export function renderTables(policies: readonly Policy[], options: RuleOptions): string {
  const tables = policies.map((policy) => {
    const name = tableName(policy.family);
    // Without the first line, the second fails if there is no table.
    return `add table ${name}\ndelete table ${name}\n${tableBlock(renderTable(policy, options))}`;
  });
  return `# nft -f replaces a table that is there at once; for a moment, packets may meet no rules of it.\n${tables.join('')}`;
}

/** A table as nft(8) lists it, without counts. */
export function tableBlock(table: Table): string {
  const { family } = table;
  const lines = [
    ...tableProperties(table),
    ...table.sets.flatMap((set) => {
      const texts = set.ranges?.map((range) => formatRange(family, range)) ?? [];
      const elements = texts.length === 0 ? [] : [`elements = { ${texts.join(', ')} }`];
      return block(`set ${printable(set.name)}`, [...setProperties(set), ...elements]);
    }),
    ...table.chains.flatMap((chain) =>
      block(`chain ${printable(chain.name)}`, [
        ...chainProperties(chain),
        ...chain.rules.map((one) => ruleText(family, one)),
      ]),
    ),
  ];
  return [...block(`table ${tableName(family)}`, lines), ''].join('\n');
}

function block(head: string, lines: readonly string[]): readonly string[] {
  return [`${head} {`, ...lines.map((line) => `\t${line}`), '}'];
}

function commentOf(text: string): string {
  return `${COMMENT_START}${text}`;
}
