import type { Family } from '../../cidr/address.ts';
import { formatRange, type Range, sameRanges } from '../../cidr/ranges.ts';
import type { Elements } from '../../netlink/elements.ts';
import type { Counter } from '../../netlink/expressions.ts';
import type { Comparison } from '../dataplane.ts';
import { DataplaneError } from '../error.ts';
import type { Seen } from '../look-memory.ts';
import type { Netlink } from '../netlink.ts';
import { CATCH_ALL, SET, TABLE } from './names.ts';
import type { ElementChange } from './plan.ts';
import type { NftablesTable } from './table.ts';

/** What the set holds. */
export interface SetContent {
  readonly elements: ReadonlyMap<string, unknown>;
  /** The generation of nf_tables in which it was so; undefined if that is unknown. */
  readonly generation: number | undefined;
}

/** A table that this process has written, or found without a difference. */
interface Known {
  readonly table: NftablesTable;
  readonly generation: number | undefined;
}

/** The share of a core that comparing the elements may take: the kernel needs seconds to send 100,000. */
const MOST_LOAD = 1 / 40;

/** The elements of the agent's sets, read and changed over netlink. */
export class SetMemory {
  readonly #netlink: Netlink | undefined;
  readonly #known = new Map<Family, Known>();
  /** When a set may be compared again, by performance.now(). */
  readonly #dueAt = new Map<Family, number>();
  /** Families in which netlink could not change the set. */
  readonly #avoided = new Set<Family>();
  #lastChange: Promise<void> = Promise.resolve();

  constructor(netlink: Netlink | undefined) {
    this.#netlink = netlink;
  }

  known(family: Family): NftablesTable | undefined {
    return this.#known.get(family)?.table;
  }

  /** Takes note that the kernel holds this table. */
  hold(family: Family, table: NftablesTable, generation?: number): void {
    this.#known.set(family, { table, generation });
  }

  /** Call it before a tool changes the table. */
  forget(family: Family): void {
    this.#known.delete(family);
    this.#avoided.delete(family);
  }

  /** Whether the next change of this set can go over netlink. */
  canChange(family: Family): boolean {
    return this.#netlink !== undefined && !this.#netlink.isOver && !this.#avoided.has(family);
  }

  /**
   * What the set holds.
   *
   * @param seen the table, as the kernel has sent it just now
   * @param from `memory` to take what is known for true
   * @returns undefined if netlink cannot tell it
   */
  async content(
    family: Family,
    { generation }: Seen,
    from: 'kernel' | 'memory',
  ): Promise<SetContent | undefined> {
    const known = this.#known.get(family);
    const table = known?.table;
    const isDue = performance.now() >= (this.#dueAt.get(family) ?? 0);
    if (known !== undefined && (from === 'memory' || known.generation === generation || !isDue))
      return { elements: known.table.elements, generation: known.generation };
    const began = performance.now();
    const read = await this.#read(family, table?.ranges ?? []);
    const now = performance.now();
    this.#dueAt.set(family, now + (now - began) / MOST_LOAD);
    if (read === undefined) return undefined;
    if (table === undefined || read.catchAll || !sameRanges(read.ranges, table.ranges))
      return { elements: textsOf(family, read), generation };
    if (this.#known.get(family) === known) this.hold(family, table, generation);
    return { elements: table.elements, generation };
  }

  /** Whether the set still holds what is known; `unknown` if it is not yet time to read it again. If not, forgets it. */
  async compare(family: Family, seen: Seen): Promise<Comparison> {
    const table = this.known(family);
    if (table === undefined) return 'unproven';
    const content = await this.content(family, seen, 'kernel');
    // The agent itself may have begun a change meanwhile.
    if (this.known(family) !== table) return 'unproven';
    if (content === undefined) return 'unknown';
    if (content.elements === table.elements)
      return content.generation === seen.generation ? 'same' : 'unknown';
    this.forget(family);
    return 'changed';
  }

  /**
   * Changes the set.
   *
   * @param table what the kernel then holds
   * @throws {DataplaneError} `raced` if the set is not as it was known, or a tool must do it
   */
  async change(family: Family, change: ElementChange, table: NftablesTable): Promise<void> {
    // One family after the other, as in the kernel: otherwise each would take the change of the other for foreign.
    const turn = this.#lastChange.then(() => this.#change(family, change, table));
    this.#lastChange = turn.catch(() => {});
    await turn;
  }

  async #change(family: Family, { remove, add }: ElementChange, table: NftablesTable): Promise<void> {
    const known = this.#known.get(family);
    this.#known.delete(family);
    const failure = await this.#netlink?.change(async (requests) => {
      const before = await requests.generation();
      await requests.change({ family, table: TABLE, set: SET }, remove, add);
      const after = await requests.generation();
      // Otherwise others have made changes too, perhaps of these sets.
      const isOnlyOwn = after.id === before.id + 1;
      const isSame = ({ generation }: Known) => isOnlyOwn && generation === before.id;
      for (const [other, held] of this.#known) if (isSame(held)) this.hold(other, held.table, after.id);
      this.hold(family, table, known !== undefined && isSame(known) ? after.id : undefined);
    });
    if (failure === undefined) return;
    this.#known.delete(family);
    const isRace = failure.failure === 'changed';
    if (!isRace) this.#avoided.add(family);
    throw new DataplaneError(
      'raced',
      failure.message,
      isRace ? 'find out which other program changes the set' : 'the next attempt uses nft',
    );
  }

  /** The counts of the elements of a table; undefined if the set holds something else, or netlink cannot tell it. */
  async counts(
    family: Family,
    { elements, ranges }: NftablesTable,
  ): Promise<ReadonlyMap<string, Counter> | undefined> {
    const read = await this.#read(family, ranges);
    if (read === undefined || read.catchAll || !sameRanges(read.ranges, ranges)) return undefined;
    return new Map(Array.from(elements.keys(), (text, index) => [text, read.ranges[index]?.counter ?? ZERO]));
  }

  /** Reads the set. If others change nf_tables meanwhile, elements can be missing from what the kernel sends. */
  async #read(family: Family, expected: readonly Range[]): Promise<Elements | undefined> {
    const read = () =>
      this.#netlink?.ask((requests) => requests.elements({ family, table: TABLE, set: SET }));
    // Two readings can lack the same elements: both may have met a change at the same place.
    const isSure = (one: Elements) => !one.torn || sameRanges(one.ranges, expected);
    const first = await read();
    if (first === undefined || isSure(first)) return first;
    const second = await read();
    return second !== undefined && isSure(second) ? second : undefined;
  }
}

const ZERO: Counter = { packets: 0n, bytes: 0n };

function textsOf(family: Family, { ranges, catchAll }: Elements): ReadonlyMap<string, unknown> {
  const texts = ranges.map((range) => formatRange(family, range));
  return new Map([...texts, ...(catchAll ? [CATCH_ALL] : [])].map((text) => [text, undefined]));
}
