import type { Family } from '../../cidr/address.ts';
import { formatRange, type Range, rangeOf } from '../../cidr/ranges.ts';
import { flatten, type Segment } from '../../policy/flatten.ts';
import type { Entry, Policy } from '../../policy/policy.ts';
import { COMMENT_START } from '../dataplane.ts';
import type { RuleOptions } from '../options.ts';
import { portRules } from '../ports.ts';
import { CHAIN, NFT_FAMILY, PRIORITY, SET, TABLE } from './names.ts';

/** The table exactly as nft(8) lists it, without counts. */
export interface NftablesTable {
  /** The lines without the elements and without indentation. */
  readonly shape: readonly string[];
  /** Destinations that are not masqueraded: prefixes, addresses or ranges, each with the entry that asks for it. */
  readonly elements: ReadonlyMap<string, Entry>;
  /** The addresses of each element, in the same order, which ascends. */
  readonly ranges: readonly Range[];
}

/**
 * The table in the order in which a packet meets it. A packet costs one lookup in the set, for any size of the set.
 * Exceptions are not in the set.
 */
export function renderTable(policy: Policy, options: RuleOptions): NftablesTable {
  const rendered = tables.get(policy);
  if (rendered?.options === options) return rendered.table;
  const table = render(policy, options);
  tables.set(policy, { options, table });
  return table;
}

/** Rendered tables: every sync, count and scrape needs the same one, and with many entries rendering is slow. */
const tables = new WeakMap<Policy, { readonly options: RuleOptions; readonly table: NftablesTable }>();

function render(policy: Policy, options: RuleOptions): NftablesTable {
  const { protocol, type } = NFT_FAMILY[policy.family];
  const shape = [
    comment('kept by ip-masq-agent, changes are undone'),
    `set ${SET} {`,
    `type ${type}`,
    'flags interval',
    'counter',
    comment('what the config leaves alone'),
    '}',
    `chain ${CHAIN} {`,
    comment('what is masqueraded'),
    `type nat hook postrouting priority ${PRIORITY}; policy accept;`,
    `fib daddr type local return ${comment('addresses of the node itself')}`,
    `${protocol} daddr @${SET} return ${comment('left alone by the config')}`,
    ...renderMasquerade(options).map((rule) => `${rule} ${comment('everything else is masqueraded')}`),
    '}',
  ];
  const segments = flatten(policy).filter(({ entry }) => entry.verdict === 'return');
  const elements = new Map(segments.map((one) => [elementText(policy.family, one), one.entry]));
  return { shape, elements, ranges: segments };
}

/** The rules that masquerade, as `portRules` says. */
function renderMasquerade(options: RuleOptions): readonly string[] {
  return portRules(options).map(({ protocol, share, isRandom }) => {
    const match = protocol === undefined ? '' : `meta l4proto ${protocol} `;
    const random = isRandom ? ' fully-random' : '';
    if (share === undefined) return `${match}counter masquerade${random}`;
    const { range, size, left } = share;
    const chance = size === left ? '' : `numgen random mod ${left} < ${size} `;
    const ports = `${range.first}${range.last === range.first ? '' : `-${range.last}`}`;
    return `${match}${chance}counter masquerade to :${ports}${random}`;
  });
}

/** The element as nft(8) prints it: a prefix, an address or a range. */
function elementText(family: Family, { first, last, entry: { prefix } }: Segment): string {
  // Mostly, the element is a whole entry.
  const isWhole = first !== last && first === prefix.address && last === rangeOf(prefix).last;
  return isWhole ? prefix.text : formatRange(family, { first, last });
}

/** The transaction that makes the table, and replaces an existing one. */
export function renderTransaction(family: Family, { shape, elements }: NftablesTable): string {
  const name = `${NFT_FAMILY[family].protocol} ${TABLE}`;
  const end = shape.indexOf('}');
  const list = elements.size === 0 ? [] : [`elements = { ${[...elements.keys()].join(', ')} }`];
  return [
    // Without the first line, the second fails if there is no table.
    `add table ${name}`,
    `delete table ${name}`,
    `table ${name} {`,
    ...shape.slice(0, end),
    ...list,
    ...shape.slice(end),
    '}',
    '',
  ].join('\n');
}

/**
 * The transaction that makes the chain again, and changes nothing else. To make the whole table again would be as atomic
 * for the rules, but not for a packet that is between two of them: the set that it looks into is just gone, and it is
 * masqueraded although the config leaves it alone (measured on Linux 6.18: 14 packets in 300 such transactions).
 */
export function renderChainTransaction(family: Family, { shape }: NftablesTable): string {
  const table = `${NFT_FAMILY[family].protocol} ${TABLE}`;
  return [
    `delete chain ${table} ${CHAIN}`,
    `table ${table} {`,
    ...shape.slice(chainStart(shape)),
    '}',
    '',
  ].join('\n');
}

/** The line of a shape at which its first chain begins. nft(8) lists chains last. */
export function chainStart(shape: readonly string[]): number {
  const index = shape.findIndex((line) => line.startsWith('chain '));
  return index === -1 ? shape.length : index;
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
