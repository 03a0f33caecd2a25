import { ADDRESS_BITS, type Family, formatAddress } from '../../cidr/address.ts';
import { flatten, type Segment } from '../../policy/flatten.ts';
import type { Entry, Policy } from '../../policy/policy.ts';
import { COMMENT_START } from '../dataplane.ts';
import type { RuleOptions } from '../options.ts';
import { spreadEvenly } from '../ports.ts';
import { CHAIN, NFT_FAMILY, SET, TABLE } from './names.ts';

/** The table in the very words in which nft(8) lists it, counts left out. */
export interface NftablesTable {
  /** Everything but the elements, line by line, without indentation. */
  readonly shape: readonly string[];
  /** Destinations that are left alone: prefixes, addresses or ranges, each with the entry that asks for it. */
  readonly elements: ReadonlyMap<string, Entry>;
}

/**
 * The table in the order in which a packet meets it. However many elements the set has, a packet costs one look into
 * it; exceptions are not in it.
 */
export function renderTable(policy: Policy, options: RuleOptions): NftablesTable {
  const rendered = tables.get(policy);
  if (rendered?.options === options) return rendered.table;
  const table = render(policy, options);
  tables.set(policy, { options, table });
  return table;
}

/** Every sync, count and scrape needs the table of the same policy, and with many entries it is dear. */
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
    'type nat hook postrouting priority srcnat; policy accept;',
    `fib daddr type local return ${comment('addresses of the node itself')}`,
    `${protocol} daddr @${SET} return ${comment('left alone by the config')}`,
    ...renderMasquerade(options).map((rule) => `${rule} ${comment('everything else is masqueraded')}`),
    '}',
  ];
  const segments = flatten(policy).filter(({ entry }) => entry.verdict === 'return');
  return { shape, elements: new Map(segments.map((one) => [elementText(policy.family, one), one.entry])) };
}

/** One rule, or with port ranges one for each range and protocol that has ports, and one for the others. */
function renderMasquerade({ toPorts, randomFully }: RuleOptions): readonly string[] {
  const random = randomFully ? ' fully-random' : '';
  const withPorts = ['tcp', 'udp', 'sctp'].flatMap((protocol) =>
    spreadEvenly(toPorts).map(({ range, size, left }) => {
      const chance = size === left ? '' : ` numgen random mod ${left} < ${size}`;
      const ports = `${range.first}${range.last === range.first ? '' : `-${range.last}`}`;
      return `meta l4proto ${protocol}${chance} counter masquerade to :${ports}${random}`;
    }),
  );
  return [...withPorts, `counter masquerade${random}`];
}

/** As nft(8) prints it: a prefix where it is one, else an address or a range. */
function elementText(family: Family, { first, last, entry }: Segment): string {
  const address = () => formatAddress({ family, value: first });
  if (first === last) return address();
  const size = last - first + 1n;
  const hostBits = size.toString(2).length - 1;
  const isPrefix = size === 1n << BigInt(hostBits) && first % size === 0n;
  if (!isPrefix) return `${address()}-${formatAddress({ family, value: last })}`;
  const length = ADDRESS_BITS[family] - hostBits;
  // Mostly nothing is cut out of an entry.
  const isWhole = first === entry.prefix.address && length === entry.prefix.length;
  return isWhole ? entry.prefix.text : `${address()}/${length}`;
}

/** The transaction that makes the table, whatever was there of that name. */
export function renderTransaction(family: Family, { shape, elements }: NftablesTable): string {
  const name = `${NFT_FAMILY[family].protocol} ${TABLE}`;
  const end = shape.indexOf('}');
  const list = elements.size === 0 ? [] : [`elements = { ${[...elements.keys()].join(', ')} }`];
  return [
    // Without the first line the second would fail where there is none.
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

/** What nft -f reads to make the tables of all the policies, whatever is there. */
export function renderTables(policies: readonly Policy[], options: RuleOptions): string {
  return policies.map((policy) => renderTransaction(policy.family, renderTable(policy, options))).join('');
}

function comment(text: string): string {
  return `comment "${COMMENT_START}${text}"`;
}
