import { isIPv6 } from 'node:net';
import { type Family, normalizeIPv6 } from '../../cidr/address.ts';
import type { Range } from '../../cidr/ranges.ts';
import { COMMENT_START } from '../dataplane.ts';
import { FROM_SET, SET } from './names.ts';
import { elementsLine } from './table.ts';
import type { NftTool } from './tool.ts';

/** The table with the name of the agent's table. */
export interface NftablesObservation<Table extends TableContent = TableContent> {
  readonly family: Family;
  /** Undefined if there is no such table. */
  readonly table: Table | undefined;
}

/** The content of a table. */
export interface TableContent {
  /** Whether a comment in it begins as the agent's comments do; otherwise another program has made the table. */
  readonly isOwn: boolean;
  /** The lines that nft(8) lists, without the elements of the set of destinations, without indentation and counts. */
  readonly shape: readonly string[];
  /** The elements of that set: prefixes, addresses or ranges, or `*` for all other addresses. */
  readonly elements: ReadonlyMap<string, unknown>;
  /** The same as ranges, ascending; undefined if they are not known. */
  readonly ranges?: readonly Range[] | undefined;
}

/** The content of a table with its counts. */
export interface ListedTable extends TableContent {
  /** The counts of the lines of the shape that have a counter, by the index of the line. */
  readonly counts: ReadonlyMap<number, Count>;
  readonly elements: ReadonlyMap<string, Count>;
}

/** The count of a rule or an element since it was made. */
export interface Count {
  readonly packets: bigint;
  readonly bytes: bigint;
}

/**
 * Reads the table of the agent.
 *
 * @param isTerse leaves out the elements of the set of destinations
 * @throws {DataplaneError}
 */
export async function observe(
  tool: NftTool,
  family: Family,
  isTerse = false,
): Promise<NftablesObservation<ListedTable>> {
  const listing = await tool.list(family, { isTerse });
  if (listing === undefined) return { family, table: undefined };
  const table = parseTable(listing);
  return { family, table: isTerse ? await withFromSet(tool, family, table) : table };
}

/** The table with the elements of the small set, which a terse listing leaves out too. */
async function withFromSet(tool: NftTool, family: Family, table: ListedTable): Promise<ListedTable> {
  const { shape, counts } = table;
  const start = shape.indexOf(`set ${FROM_SET} {`);
  const listing = start === -1 ? undefined : await tool.list(family, { set: FROM_SET });
  const elements = listing && parseTable(listing).shape.find((line) => line.startsWith('elements = '));
  if (elements === undefined) return table;
  const end = shape.indexOf('}', start);
  return {
    ...table,
    shape: shape.toSpliced(end, 0, elements),
    counts: new Map(Array.from(counts, ([line, count]) => [line < end ? line : line + 1, count])),
  };
}

/** The elements, which nft(8) lists at the end of the set. */
const ELEMENTS = new RegExp(
  `(^\\tset ${SET} \\{\\n(?:\\t\\t(?!elements).*\\n)*)\\t\\telements = \\{([^}]*)\\}\\n`,
  'm',
);
const OTHER_ELEMENTS = /elements = \{([^}]*)\}/g;
const ELEMENT = /(\*|[0-9a-f.:/-]+)(?:[^,]*? counter packets (\d+) bytes (\d+))?[^,]*(?:,|$)/g;
const DESTINATION = /^(ip6 daddr )(\S+)/;
/** Without /etc/protocols, nft(8) writes numbers. */
const PROTOCOL = /^((?:ip6? daddr \S+ )?meta l4proto )(6|17|132)(?= )/;
const PROTOCOLS: Readonly<Record<string, string>> = { 6: 'tcp', 17: 'udp', 132: 'sctp' };
const COUNTER = /\bcounter packets (\d+) bytes (\d+)/;

/** Texts in quotes, in which nft(8) allows every character but a quote. */
const QUOTED = /"[^"]*"/g;

/** Reads what `nft list table` prints. */
function parseTable(printed: string): ListedTable {
  const listing = printed.replace(QUOTED, (text) => text.replace(/[\n{}]/g, '?'));
  const [, , list = ''] = ELEMENTS.exec(listing) ?? [];
  const elements = new Map<string, Count>();
  for (const [, text = '', packets, bytes] of list.replace(QUOTED, '').matchAll(ELEMENT)) {
    elements.set(canonical(text), { packets: BigInt(packets ?? 0), bytes: BigInt(bytes ?? 0) });
  }
  const counts = new Map<number, Count>();
  const lines = listing.replace(ELEMENTS, '$1').replace(OTHER_ELEMENTS, joinLines).split('\n');
  // The first line opens the table, the last one closes it.
  const shape = lines
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .slice(1, -1);
  for (const [index, line] of shape.entries()) {
    const [, packets, bytes] = COUNTER.exec(line) ?? [];
    if (packets !== undefined) counts.set(index, { packets: BigInt(packets), bytes: BigInt(bytes ?? 0) });
  }
  return {
    isOwn: shape.some((line) => line.includes(`comment "${COMMENT_START}`)),
    shape: shape.map((line) =>
      line
        .replace(COUNTER, 'counter')
        .replace(DESTINATION, (_, start, text) => start + canonical(text))
        .replace(PROTOCOL, (_, start, number) => start + PROTOCOLS[number]),
    ),
    counts,
    elements,
  };
}

/** The elements of a small set in one line. */
function joinLines(_: string, list: string): string {
  return elementsLine(list.split(',').map((text) => canonical(text.trim())));
}

/** The element with canonical addresses. nft(8) writes some IPv6 addresses with a dotted end (inet_ntop(3)). */
function canonical(element: string): string {
  if (!element.includes(':') || !element.includes('.')) return element;
  return element.replace(/[^/-]+(?=[/-]|$)/g, (part) => (isIPv6(part) ? normalizeIPv6(part) : part));
}
