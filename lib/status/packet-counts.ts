import type { Dataplane, EntryCount } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Family, Policy } from '../policy/policy.ts';

/** The shortest time between two readings, because each one may start a process for each family. */
const FRESH_MS = 15_000;

/** The counts of the kernel as they are: they begin at zero when rules are written again. */
export class PacketCounts {
  readonly #counts = new Map<Family, readonly EntryCount[]>();
  readonly #readAt = new Map<Family, number>();

  /** The counts of the last reading. */
  get byFamily(): ReadonlyMap<Family, readonly EntryCount[]> {
    return this.#counts;
  }

  /** Reads the counts of a family, unless that was done a moment ago, or is under way. Those of before stay if it fails. */
  async read(dataplane: Dataplane, policy: Policy): Promise<void> {
    const { family } = policy;
    const now = performance.now();
    if (now - (this.#readAt.get(family) ?? Number.NEGATIVE_INFINITY) < FRESH_MS) return;
    this.#readAt.set(family, Number.POSITIVE_INFINITY);
    try {
      this.#counts.set(family, await dataplane.count(policy));
    } catch (error) {
      if (!(error instanceof DataplaneError)) throw error;
    } finally {
      this.#readAt.set(family, now);
    }
  }
}
