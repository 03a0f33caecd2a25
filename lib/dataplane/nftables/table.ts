import { isDeepStrictEqual } from 'node:util';
import type { Address, Family } from '../../cidr/address.ts';
import type { Prefix } from '../../cidr/prefix.ts';
import { PrefixMap } from '../../cidr/prefix-map.ts';
import { formatRange, parseRange, type Range, rangeOf } from '../../cidr/ranges.ts';
import { flatten, type Segment } from '../../policy/flatten.ts';
import { type Entry, fromSet, type NodeAddress, type Policy } from '../../policy/policy.ts';
import { COMMENT_START } from '../dataplane.ts';
import type { RuleOptions } from '../options.ts';
import { portRules } from '../ports.ts';
import { renderedOnce } from '../rendered.ts';
import { portsText, translationText } from '../translation.ts';
import {
  CHAIN,
  FROM_SET,
  INVALID_CHAIN,
  INVALID_MATCH,
  INVALID_PRIORITY,
  NFT_FAMILY,
  PRIORITY,
  SET,
  tableName,
} from './names.ts';
import { chainLines, type NftChain, type NftSet, type NftTable, tableLines, wholeTable } from './objects.ts';

/** The table of a policy: each element with the entry that asks for it. */
export interface PolicyTable extends NftTable<Entry> {
  readonly ranges: readonly Range[];
}

/**
 * The table in the order in which a packet meets it. A packet costs one lookup in the set, for any size of the set.
 * Exceptions are not in the set.
 */
export const renderTable = renderedOnce(render);

function render(policy: Policy, options: RuleOptions): PolicyTable {
  const { protocol, type } = NFT_FAMILY[policy.family];
  const segments = flatten(policy).filter(({ entry }) => entry.verdict === 'not_masqueraded');
  const rules = [
    `fib daddr type local return ${comment('addresses of the node itself')}`,
    ...(policy.from.length > 0 ? [fromRule(policy.family)] : []),
    `${protocol} daddr @${SET} return ${comment('left alone by the config')}`,
    ...addressRules(policy).flatMap(({ prefix, as }) => renderAddress(policy.family, prefix, as, options)),
    ...renderMasquerade('', undefined, options, 'everything else is masqueraded'),
  ];
  return {
    properties: [comment('kept by ip-masq-agent, changes are undone')],
    sets: [
      {
        head: `set ${SET}`,
        properties: [`type ${type}`, 'flags interval', 'counter', comment('what the config leaves alone')],
      },
      ...renderFromSet(policy),
    ],
    chains: [
      {
        head: `chain ${CHAIN}`,
        properties: [
          comment('what is masqueraded'),
          `type nat hook postrouting priority ${PRIORITY}; policy accept;`,
        ],
        rules: rules.map((text) => ({ text })),
      },
      ...renderInvalid(policy, options),
    ],
    elements: new Map(segments.map((one) => [elementText(policy.family, one), one.entry])),
    ranges: segments,
  };
}

/**
 * The chain for packets that conntrack assigns to no connection, such as a FIN after its entry has expired: the kernel
 * takes them past every chain of type nat, so they leave with the address of the pod (nf_nat_inet_fn in nf_nat_core.c).
 * One rule, because a negated lookup does not count in the element that it finds (nft_lookup.c).
 */
function renderInvalid(
  { family, from }: Policy,
  { invalidPackets = 'off' }: RuleOptions,
): readonly NftChain[] {
  if (invalidPackets === 'off') return [];
  const { protocol } = NFT_FAMILY[family];
  const match = [
    'fib saddr type != local fib daddr type != local',
    ...(from.length > 0 ? [`${protocol} saddr @${FROM_SET}`] : []),
    `${protocol} daddr != @${SET}`,
  ].join(' ');
  const verdict = invalidPackets === 'drop' ? 'counter drop' : 'counter';
  const text = `${INVALID_MATCH}${match} ${verdict} ${comment('would leave with the address of a pod')}`;
  return [
    {
      head: `chain ${INVALID_CHAIN}`,
      properties: [
        comment('what NAT does not see'),
        `type filter hook postrouting priority ${INVALID_PRIORITY}; policy accept;`,
      ],
      rules: [{ text }],
    },
  ];
}

function renderFromSet(policy: Policy): readonly NftSet[] {
  const { family } = policy;
  const elements = fromSet(policy)?.ranges.map((range) => formatRange(family, range));
  return elements === undefined ? [] : [fromSetOf(family, elements)];
}

function fromSetOf(family: Family, elements: readonly string[]): NftSet {
  const properties = [
    `type ${NFT_FAMILY[family].type}`,
    'flags interval',
    comment('whose packets are looked at'),
  ];
  return { head: `set ${FROM_SET}`, properties, elements };
}

/** The elements of the second set; undefined if it is not there, or differs in more than its elements. */
export function fromElements(
  family: Family,
  { sets }: Pick<NftTable, 'sets'>,
): readonly string[] | undefined {
  const set = sets.find(({ head }) => head === `set ${FROM_SET}`);
  const elements = set?.elements ?? [];
  const isAsWritten = isDeepStrictEqual(set?.properties, fromSetOf(family, []).properties);
  return isAsWritten && elements.every((text) => parseRange(text) !== undefined) ? elements : undefined;
}

function fromRule(family: Family): string {
  const { protocol } = NFT_FAMILY[family];
  return `${protocol} saddr != @${FROM_SET} counter return ${comment('packets from elsewhere are not masqueraded')}`;
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
    .filter(({ prefix, as }) => all.nearestAround(prefix)?.as?.range !== as?.range)
    .toSorted((a, b) => b.prefix.length - a.prefix.length);
}

/** The rules for one destination. Without an address of the node, they masquerade as for all other destinations. */
function renderAddress(
  family: Family,
  prefix: Prefix,
  as: NodeAddress | undefined,
  options: RuleOptions,
): readonly string[] {
  const match =
    prefix.length === 0
      ? ''
      : `${NFT_FAMILY[family].protocol} daddr ${formatRange(family, rangeOf(prefix))} `;
  const address = as?.found?.[0];
  const why =
    as && (address === undefined ? `no address in ${as.range.text}` : `with the address in ${as.range.text}`);
  return renderMasquerade(match, address, options, why ?? 'with the address of the link');
}

/** The rules that masquerade, as `portRules` says; with that address, if there is one. */
function renderMasquerade(
  destination: string,
  address: Address | undefined,
  options: RuleOptions,
  why: string,
): readonly string[] {
  return portRules(options).map(({ protocol, share, isRandom }) => {
    const match = `${destination}${protocol === undefined ? '' : `meta l4proto ${protocol} `}`;
    const chance =
      share === undefined || share.size === share.left
        ? ''
        : `numgen random mod ${share.left} < ${share.size} `;
    const ports = share === undefined ? '' : ` to :${portsText(share.range)}`;
    const nat =
      address === undefined ? `masquerade${ports}` : `snat to ${translationText(address, share?.range)}`;
    return `${match}${chance}counter ${nat}${isRandom ? ' fully-random' : ''} ${comment(why)}`;
  });
}

/** The element as nft(8) prints it: a prefix, an address or a range. */
function elementText(family: Family, { first, last, entry: { prefix } }: Segment): string {
  // Mostly, the element is a whole entry.
  const isWhole = first !== last && first === prefix.address && last === rangeOf(prefix).last;
  return isWhole ? prefix.text : formatRange(family, { first, last });
}

export function renderTransaction(family: Family, table: NftTable): string {
  const name = tableName(family);
  // Without the first line, the second fails if there is no table.
  return `add table ${name}\ndelete table ${name}\n${blockOf(name, wholeTable(table))}`;
}

/** Adds to a table, which is made if it is not there. */
function blockOf(table: string, lines: readonly string[]): string {
  return [`table ${table} {`, ...lines, '}', ''].join('\n');
}

/** A chain that differs: what is there, and what is to be; undefined if nothing. */
export interface ChangedChain {
  readonly name: string;
  readonly before: NftChain | undefined;
  readonly after: NftChain | undefined;
}

/**
 * The transaction that makes the rules of chains again, and deletes the second set if it goes; empty for no chains. It keeps
 * the sets: a packet between two rules that finds its set gone would be masqueraded (measured on Linux 6.18: 14 packets in 300
 * transactions of the whole table). A chain itself is made again only if its hook or comment differs, which the kernel
 * does not change.
 */
export function renderChainTransaction(
  family: Family,
  chains: readonly ChangedChain[],
  deletesFromSet: boolean,
): string {
  const table = tableName(family);
  const empty = chains.map(({ name, before, after }) => {
    const verb = isDeepStrictEqual(before?.properties, after?.properties) ? 'flush' : 'delete';
    return before === undefined ? '' : `${verb} chain ${table} ${name}\n`;
  });
  if (chains.length === 0) return '';
  const deletion = deletesFromSet ? `delete set ${table} ${FROM_SET}\n` : '';
  return `${empty.join('')}${deletion}${blockOf(
    table,
    chains.flatMap(({ after }) => (after ? chainLines(after) : [])),
  )}`;
}

/**
 * The transaction that adds the second set, which no rule uses yet. A rule of the same transaction could meet it before the
 * kernel finds its elements (measured on Linux 6.18: once in some 150).
 */
export function renderFromSetTransaction(family: Family, elements: readonly string[]): string {
  const sets = [fromSetOf(family, elements)];
  return blockOf(tableName(family), tableLines({ properties: [], sets, chains: [] }));
}

/** The input of nft -f that makes the tables of all policies, and replaces existing ones. */
export function renderTables(policies: readonly Policy[], options: RuleOptions): string {
  const script = policies.map((policy) => renderTransaction(policy.family, renderTable(policy, options)));
  return indented(script.join(''));
}

/** The lines with a tab for each block that they are in, as nft(8) prints them. */
function indented(script: string): string {
  let depth = 0;
  return script.replace(/^.+$/gm, (line) => {
    if (line === '}') depth -= 1;
    const text = `${'\t'.repeat(depth)}${line}`;
    if (line.endsWith('{')) depth += 1;
    return text;
  });
}

function comment(text: string): string {
  return `comment "${COMMENT_START}${text}"`;
}
