import { type Family, normalizeIPv6 } from '../../cidr/address.ts';
import { COMMENT_START } from '../dataplane.ts';
import { SET } from './names.ts';
import type { NftTool } from './tool.ts';

/** What the kernel holds in the table of our name. */
export interface NftablesObservation<Table extends TableContent = TableContent> {
  readonly family: Family;
  /** Undefined where there is no such table. */
  readonly table: Table | undefined;
}

/** What is in a table. */
export interface TableContent {
  /** Whether any comment in it begins as ours do: a table of our name without one is somebody else's. */
  readonly isOurs: boolean;
  /** Every line as nft(8) lists it but the elements of our set, without indentation and counts. */
  readonly shape: readonly string[];
  /** The elements of our set: prefixes, addresses or ranges. */
  readonly elements: ReadonlyMap<string, unknown>;
}

/** The same with what it has counted. */
export interface ListedTable extends TableContent {
  /** What the lines of the shape have counted, of those that count, by their index. */
  readonly counts: ReadonlyMap<number, Count>;
  readonly elements: ReadonlyMap<string, Count>;
}

/** What a rule or an element has counted since it was made. */
export interface Count {
  readonly packets: bigint;
  readonly bytes: bigint;
}

/** @throws {DataplaneError} */
export async function observe(tool: NftTool, family: Family): Promise<NftablesObservation<ListedTable>> {
  const listing = await tool.list(family);
  return { family, table: listing === undefined ? undefined : parseTable(listing) };
}

/** The elements of our set, which nft(8) lists last in it. */
const ELEMENTS = new RegExp(
  `(^\\tset ${SET} \\{\\n(?:\\t\\t(?!elements).*\\n)*)\\t\\telements = \\{([^}]*)\\}\\n`,
  'm',
);
const ELEMENT = /([0-9a-f.:/-]+)(?:[^,]*? counter packets (\d+) bytes (\d+))?[^,]*(?:,|$)/g;
const COUNTER = /\bcounter packets (\d+) bytes (\d+)/;

/** Reads what `nft list table` prints. */
function parseTable(listing: string): ListedTable {
  const [, , list = ''] = ELEMENTS.exec(listing) ?? [];
  const elements = new Map<string, Count>();
  for (const [, text = '', packets, bytes] of list.matchAll(ELEMENT)) {
    elements.set(canonical(text), { packets: BigInt(packets ?? 0), bytes: BigInt(bytes ?? 0) });
  }
  const counts = new Map<number, Count>();
  const lines = listing.replace(ELEMENTS, '$1').split('\n');
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
    isOurs: shape.some((line) => line.includes(`comment "${COMMENT_START}`)),
    shape: shape.map((line) => line.replace(COUNTER, 'counter')),
    counts,
    elements,
  };
}

/** nft(8) writes some IPv6 addresses with a dotted end (inet_ntop(3)), which RFC 5952 leaves to the writer. */
function canonical(element: string): string {
  if (!element.includes(':') || !element.includes('.')) return element;
  return element.replace(/[^/-]+(?=[/-]|$)/g, (part) => (part.includes(':') ? normalizeIPv6(part) : part));
}
