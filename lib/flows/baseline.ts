import { partitionPoint } from '../text/partition-point.ts';

/**
 * Tells flows that began before the agent's last change from those that began since. The baseline is the first complete reading
 * that begins after the change: an earlier one would accuse what began in between.
 */
export class Baseline {
  #changes = 0;
  /** Of which change the ids are; none yet. */
  #change: number | undefined;
  #ids = new Uint32Array(0);

  /** The agent has written rules, or something else has changed how the kernel, or the agent, judges flows. */
  onChange(): void {
    this.#changes += 1;
  }

  begin(): FlowReading {
    const change = this.#changes;
    const isFirst = this.#change !== change;
    const known = this.#ids;
    const found = new Ids();
    return {
      beginning: (id) => {
        const isBefore = isFirst || has(known, id);
        if (isBefore) found.add(id);
        return isBefore ? 'before' : 'after';
      },
      isOverIn: () => {
        if (this.#changes !== change) return false;
        this.#change = change;
        this.#ids = found.sorted();
        return true;
      },
    };
  }
}

/** One reading of all flows. */
interface FlowReading {
  /**
   * @param id of a flow that is treated otherwise than the policy asks, whether it counts or not: whether it counts can change
   * while it goes on
   */
  readonly beginning: (id: number) => 'before' | 'after';
  /** Called after a complete reading. False if something has changed meanwhile: then the reading says nothing. */
  readonly isOverIn: () => boolean;
}

const FIRST_IDS = 1_024;

/** Numbers of four bytes each. */
class Ids {
  #ids = new Uint32Array(FIRST_IDS);
  #length = 0;

  add(id: number): void {
    if (this.#length === this.#ids.length) {
      const larger = new Uint32Array(2 * this.#length);
      larger.set(this.#ids);
      this.#ids = larger;
    }
    this.#ids[this.#length] = id;
    this.#length += 1;
  }

  sorted(): Uint32Array<ArrayBuffer> {
    return this.#ids.slice(0, this.#length).sort();
  }
}

function has(sorted: Uint32Array, id: number): boolean {
  return sorted[partitionPoint(sorted, (one) => one < id)] === id;
}
