import { isIPv6 } from 'node:net';
import { type Family, normalizeIPv6 } from '../../cidr/address.ts';
import { FROM_SET, SET } from './names.ts';
import { elementsLine, type NftRule, type NftTable, readLines } from './objects.ts';
import type { NftTool } from './tool.ts';

/**
 * Reads the table with the name of the agent's table, and its counts; undefined if there is none.
 *
 * @param isTerse leaves out the elements of the set of destinations
 * @throws {DataplaneError}
 */
export async function observe(
  tool: NftTool,
  family: Family,
  isTerse = false,
): Promise<NftTable<bigint> | undefined> {
  const listing = await tool.list(family, { isTerse });
  const table = listing === undefined ? undefined : readListing(listing);
  if (!isTerse || table?.sets.every(({ head }) => head !== FROM_HEAD)) return table;
  // A terse listing leaves out the elements of the small set too.
  const small = await tool.list(family, { set: FROM_SET });
  const from = small === undefined ? [] : readListing(small).sets;
  const read = (head: string) => from.find((set) => set.head === head);
  return table && { ...table, sets: table.sets.map((set) => read(set.head) ?? set) };
}

const FROM_HEAD = `set ${FROM_SET}`;

/** The elements, which nft(8) lists at the end of the set. */
const ELEMENTS = new RegExp(
  `(^\\tset ${SET} \\{\\n(?:\\t\\t(?!elements).*\\n)*)\\t\\telements = \\{([^}]*)\\}\\n`,
  'm',
);
const OTHER_ELEMENTS = /elements = \{([^}]*)\}/g;
const ELEMENT = /(\*|[0-9a-f.:/-]+)(?:[^,]*? counter packets (\d+) bytes \d+)?[^,]*(?:,|$)/g;
const DESTINATION = /^(ip6 daddr )(\S+)/;
/** Without /etc/protocols, nft(8) writes numbers. */
const PROTOCOL = /^((?:ip6? daddr \S+ )?meta l4proto )(6|17|132)(?= )/;
const PROTOCOLS: Readonly<Record<string, string>> = { 6: 'tcp', 17: 'udp', 132: 'sctp' };
const COUNTER = /\bcounter packets (\d+) bytes \d+/;

/** Texts in quotes, in which nft(8) allows every character but a quote. */
const QUOTED = /"[^"]*"/g;

/** Reads what `nft list table` or `nft list set` prints. */
function readListing(printed: string): NftTable<bigint> {
  const listing = printed.replace(QUOTED, (text) => text.replace(/[\n{}]/g, '?'));
  const [, , list = ''] = ELEMENTS.exec(listing) ?? [];
  const elements = new Map<string, bigint>();
  for (const [, text = '', packets] of list.replace(QUOTED, '').matchAll(ELEMENT)) {
    elements.set(canonical(text), BigInt(packets ?? 0));
  }
  // The first line opens the table, the last one closes it.
  const lines = listing.replace(ELEMENTS, '$1').replace(OTHER_ELEMENTS, joinLines).split('\n');
  const inside = lines.map((line) => line.trim()).filter((line) => line !== '');
  return { ...readLines(inside.slice(1, -1), readRule), elements };
}

function readRule(line: string): NftRule {
  const [, packets] = COUNTER.exec(line) ?? [];
  const text = line
    .replace(COUNTER, 'counter')
    .replace(DESTINATION, (_, start, address) => start + canonical(address))
    .replace(PROTOCOL, (_, start, number) => start + PROTOCOLS[number]);
  return packets === undefined ? { text } : { text, packets: BigInt(packets) };
}

function joinLines(_: string, list: string): string {
  return elementsLine(list.split(',').map((text) => canonical(text.trim())));
}

/** The element with canonical addresses. nft(8) writes some IPv6 addresses with a dotted end (inet_ntop(3)). */
function canonical(element: string): string {
  if (!element.includes(':') || !element.includes('.')) return element;
  return element.replace(/[^/-]+(?=[/-]|$)/g, (part) => (isIPv6(part) ? normalizeIPv6(part) : part));
}
