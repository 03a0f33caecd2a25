import type { Family } from '../../cidr/address.ts';
import { formatRange, type Range, sameRanges } from '../../cidr/ranges.ts';
import type { Elements } from '../../netlink/elements.ts';
import type { Seen } from '../memory.ts';
import type { Netlink, Requests } from '../netlink.ts';
import { CATCH_ALL, CHAINS, FROM_SET, SET, TABLE } from './names.ts';
import type { NftTable } from './objects.ts';
import type { PolicyTable } from './table.ts';

/** The agent's table without the elements of its set of destinations, as the kernel sends it. */
export interface SeenTable extends Seen {
  /** The counts of the rules that count, in order, by the name of the chain. */
  readonly packets: ReadonlyMap<string, readonly bigint[]>;
}

/** Reads the table over netlink. Of other chains and sets in it, only the number is in the fingerprint. */
export async function seeTable(requests: Requests, family: Family): Promise<SeenTable> {
  const name = { family, table: TABLE };
  const { id: generation } = await requests.generation();
  const table = await requests.table(name);
  if (table === undefined) return { fingerprint: undefined, generation, packets: new Map() };
  const set = await requests.set({ ...name, set: SET });
  const fromSet = await requests.set({ ...name, set: FROM_SET });
  const from = fromSet && (await requests.content({ ...name, set: FROM_SET }));
  const seen = [table, set, fromSet, ...(from ?? [])];
  const packets = new Map<string, readonly bigint[]>();
  for (const chain of CHAINS) {
    const found = await requests.chain({ ...name, chain });
    const rules = found === undefined ? [] : await requests.rules({ ...name, chain });
    seen.push(found, ...rules);
    packets.set(
      chain,
      rules.flatMap((rule) => rule.packets ?? []),
    );
  }
  return { fingerprint: seen.map((one) => one?.fingerprint ?? 'none').join(''), generation, packets };
}

/**
 * The elements of the set of destinations, read over netlink.
 *
 * @param known what the table held; if the set still holds these elements, they are returned as they are
 * @returns undefined if there is no such set, or netlink cannot tell them
 */
export async function seeElements(
  netlink: Netlink | undefined,
  family: Family,
  known: NftTable | undefined,
): Promise<NftTable['elements'] | undefined> {
  const read = await readElements(netlink, family, known?.ranges);
  if (read === undefined) return undefined;
  if (known !== undefined && isExactly(read, known.ranges)) return known.elements;
  const texts = read.ranges.map((range) => formatRange(family, range));
  return new Map([...texts, ...(read.catchAll ? [CATCH_ALL] : [])].map((text) => [text, undefined]));
}

/** The counts of the elements of a table; undefined if the set holds something else, or netlink cannot tell it. */
export async function seeElementCounts(
  netlink: Netlink | undefined,
  family: Family,
  { elements, ranges }: PolicyTable,
): Promise<ReadonlyMap<string, bigint> | undefined> {
  const read = await readElements(netlink, family, ranges);
  if (read === undefined || !isExactly(read, ranges)) return undefined;
  return new Map(Array.from(elements.keys(), (text, index) => [text, read.ranges[index]?.packets ?? 0n]));
}

const MOST_ASKED = 16;

/**
 * Reads the set. If other changes of nf_tables came in between, and they were changes of this set, elements can be missing
 * from what the kernel sends: those that are expected are then asked for one by one.
 */
async function readElements(
  netlink: Netlink | undefined,
  family: Family,
  expected: readonly Range[] | undefined,
): Promise<Elements | undefined> {
  const set = { family, table: TABLE, set: SET };
  return await netlink?.ask(async (requests) => {
    const read = await requests.elements(set);
    if (read?.torn !== true || expected === undefined || isExactly(read, expected)) return read;
    const found = new Map(read.ranges.map((range) => [range.first, range]));
    const missing = expected.filter(({ first, last }) => found.get(first)?.last !== last);
    for (const range of missing.slice(0, MOST_ASKED))
      if (await requests.hasRange(set, range)) found.set(range.first, { ...range, packets: undefined });
    const ranges = [...found.values()].toSorted((a, b) => (a.first < b.first ? -1 : 1));
    return { ...read, ranges };
  });
}

function isExactly({ ranges, catchAll }: Elements, expected: readonly Range[] | undefined): boolean {
  return !catchAll && sameRanges(ranges, expected);
}
