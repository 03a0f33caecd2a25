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
import { CHAIN, FROM_SET, NFT_FAMILY, PRIORITY, SET, TABLE } from './names.ts';

/** The table exactly as nft(8) lists it, without counts. */
export interface NftablesTable {
  /** The lines without indentation, and without the elements of the set of destinations. */
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
export const renderTable = renderedOnce(render);

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
    ...renderFromSet(policy),
    `chain ${CHAIN} {`,
    comment('what is masqueraded'),
    `type nat hook postrouting priority ${PRIORITY}; policy accept;`,
    `fib daddr type local return ${comment('addresses of the node itself')}`,
    ...(policy.from.length > 0 ? [fromRule(policy.family)] : []),
    `${protocol} daddr @${SET} return ${comment('left alone by the config')}`,
    ...addressRules(policy).flatMap(({ prefix, as }) => renderAddress(policy.family, prefix, as, options)),
    ...renderMasquerade('', undefined, options, 'everything else is masqueraded'),
    '}',
  ];
  const segments = flatten(policy).filter(({ entry }) => entry.verdict === 'not_masqueraded');
  const elements = new Map(segments.map((one) => [elementText(policy.family, one), one.entry]));
  return { shape, elements, ranges: segments };
}

function renderFromSet(policy: Policy): readonly string[] {
  const { family } = policy;
  const from = fromSet(policy);
  if (from === undefined) return [];
  return fromSetLines(
    family,
    from.ranges.map((range) => formatRange(family, range)),
  );
}

function fromSetLines(family: Family, elements: readonly string[]): readonly string[] {
  return [
    `set ${FROM_SET} {`,
    `type ${NFT_FAMILY[family].type}`,
    'flags interval',
    comment('whose packets are looked at'),
    ...(elements.length === 0 ? [] : [elementsLine(elements)]),
    '}',
  ];
}

/** The parts of a shape. */
interface Sections {
  /** What is in front of the first chain, without the second set. nft(8) lists chains last. */
  readonly head: readonly string[];
  /** The elements of the second set; undefined if it is not there. */
  readonly from: readonly string[] | undefined;
  readonly chains: readonly string[];
}

export function sectionsOf(family: Family, shape: readonly string[]): Sections {
  const chain = shape.findIndex((line) => line.startsWith('chain '));
  const [sets, chains] = chain === -1 ? [shape, []] : [shape.slice(0, chain), shape.slice(chain)];
  const start = sets.indexOf(`set ${FROM_SET} {`);
  const length = start === -1 ? 0 : sets.indexOf('}', start) + 1 - start;
  const lines = sets.slice(start, start + length);
  const [, list] = /^elements = \{ (.*) \}$/.exec(lines.at(-2) ?? '') ?? [];
  const from = list?.split(', ') ?? [];
  const isAsWritten = fromSetLines(family, from).join('\n') === lines.join('\n');
  // A set that differs in more than its elements is part of the head, which then differs.
  if (!isAsWritten || from.some((text) => parseRange(text) === undefined))
    return { head: sets, from: undefined, chains };
  return { head: sets.toSpliced(start, length), from, chains };
}

/** The elements of a set, in one line. */
export function elementsLine(elements: readonly string[]): string {
  return `elements = { ${elements.join(', ')} }`;
}

/** The rule for packets from elsewhere. */
export function fromRule(family: Family): string {
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

/** The transaction that makes the table, and replaces an existing one. */
export function renderTransaction(family: Family, { shape, elements }: NftablesTable): string {
  const name = `${NFT_FAMILY[family].protocol} ${TABLE}`;
  const end = shape.indexOf('}');
  const list = elements.size === 0 ? [] : [elementsLine([...elements.keys()])];
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
 * The transaction that makes the rules again, deletes the second set if it goes, and changes nothing else. To make the
 * whole table again would be as atomic for the rules, but not for a packet that is between two of them: the set that it
 * looks into is just gone, and it is masqueraded although the config leaves it alone (measured on Linux 6.18: 14 packets in
 * 300 such transactions). The chain itself is made again only if its hook or comment differs.
 *
 * @param before the table that is there, with the same head
 */
export function renderChainTransaction(family: Family, before: Sections, after: Sections): string {
  const table = `${NFT_FAMILY[family].protocol} ${TABLE}`;
  // The hook, and the comment, which the kernel does not change in a chain that is there.
  const propertiesOf = ({ chains }: Sections) =>
    chains.filter((line) => /^(?:type|comment) /.test(line)).join();
  return [
    `${propertiesOf(before) === propertiesOf(after) ? 'flush' : 'delete'} chain ${table} ${CHAIN}`,
    ...(before.from !== undefined && after.from === undefined ? [`delete set ${table} ${FROM_SET}`] : []),
    `table ${table} {`,
    ...after.chains,
    '}',
    '',
  ].join('\n');
}

/**
 * The transaction that adds the second set, which no rule uses yet. A rule of the same transaction could meet it before the
 * kernel finds its elements (measured on Linux 6.18: once in some 150).
 */
export function renderFromSetTransaction(family: Family, elements: readonly string[]): string {
  const table = `${NFT_FAMILY[family].protocol} ${TABLE}`;
  return [`table ${table} {`, ...fromSetLines(family, elements), '}', ''].join('\n');
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
