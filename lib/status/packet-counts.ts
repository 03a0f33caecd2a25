import type { Dataplane, EntryCount, RuleCount } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Family, Policy } from '../policy/policy.ts';
import type { Origin } from '../text/origin.ts';

/** The shortest time between two readings, because each one starts a process for each family. */
const FRESH_MS = 15_000;

interface CountReading {
  readonly incarnation: number;
  /** The counts by the id of the rule. */
  readonly rules: ReadonlyMap<string, RuleCount>;
}

/** The packets of one verdict, or invalid ones, that the entries of one config file have decided about. */
export interface ConfigFileCount {
  /**
   * The config file, or the RFC of a default; undefined for destinations that no entry holds, and packets from elsewhere.
   */
  readonly file: string | undefined;
  readonly countedAs: EntryCount['countedAs'];
  readonly packets: bigint;
}

/** The counts of the rules. In the kernel they begin at zero when rules are written again; here they go on. */
export class PacketCounts {
  readonly #readings = new Map<Family, CountReading>();
  readonly #readAt = new Map<Family, number>();
  readonly #now: () => number;

  /** @param now milliseconds of a clock that never goes back */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** The counts of each entry since its rules were made, by the last reading. */
  entries(family: Family): readonly EntryCount[] {
    const rules = this.#readings.get(family)?.rules.values() ?? [];
    return [...summed(rules, countKey).values()];
  }

  /**
   * The counts since the last call. Empty if the last call was a moment ago, or if the kernel cannot be read now; a
   * later call then includes them.
   */
  async takeGrowth(dataplane: Dataplane, policy: Policy): Promise<readonly ConfigFileCount[]> {
    const { family } = policy;
    const now = this.#now();
    if (now - (this.#readAt.get(family) ?? Number.NEGATIVE_INFINITY) < FRESH_MS) return [];
    // Never two readings at once: if the older one ended last, it would look like a rewrite.
    this.#readAt.set(family, Number.POSITIVE_INFINITY);
    try {
      const before = this.#readings.get(family);
      const { incarnation, rules } = await dataplane.count(policy);
      const after = { incarnation, rules: summed(rules, ({ ruleId }) => ruleId) };
      this.#readings.set(family, after);
      return countsByFile(growth(before, after));
    } catch (error) {
      if (!(error instanceof DataplaneError)) throw error;
      return [];
    } finally {
      this.#readAt.set(family, now);
    }
  }
}

/** A key of an entry without its origin, because entries with equal keys have equal rules. */
export function countKey({ entry, countedAs }: Pick<EntryCount, 'entry' | 'countedAs'>): string {
  return `${countedAs} ${entry?.prefix.text ?? 'everything else'}`;
}

function summed<Count extends EntryCount>(
  counts: Iterable<Count>,
  keyOf: (count: Count) => string,
): ReadonlyMap<string, Count> {
  const sums = new Map<string, Count>();
  for (const count of counts) {
    const key = keyOf(count);
    const sum = sums.get(key) ?? { ...count, packets: 0n };
    sums.set(key, { ...sum, packets: sum.packets + count.packets });
  }
  return sums;
}

/**
 * The growth of each rule since the last reading. It cannot be computed from sums of rules: if one rule is removed, the
 * sum shrinks as if all were written again.
 */
function growth(before: CountReading | undefined, after: CountReading): readonly EntryCount[] {
  const known = before?.incarnation === after.incarnation ? before.rules : undefined;
  return Array.from(after.rules, ([rule, count]) => {
    const { packets = 0n } = known?.get(rule) ?? {};
    // Less than before: another program has written the rule again, and all of its count is new.
    if (count.packets < packets) return count;
    return { ...count, packets: count.packets - packets };
  });
}

/** The sums by config file and verdict, in the order of the first count of each. */
function countsByFile(counts: readonly EntryCount[]): readonly ConfigFileCount[] {
  const fileIn = ({ entry }: EntryCount) => entry && originName(entry.origin);
  const sums = summed(counts, (one) => `${one.countedAs} ${one.entry?.origin.kind} ${fileIn(one)}`);
  return Array.from(sums.values(), (sum) => {
    const { countedAs, packets } = sum;
    return { file: fileIn(sum), countedAs, packets };
  });
}

/** The config file of an origin, or what a default follows, such as `RFC 3927`. */
export function originName(origin: Origin): string {
  return origin.kind === 'file' ? origin.configFile : origin.basis;
}
