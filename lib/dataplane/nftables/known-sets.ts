import type { Family } from '../../cidr/address.ts';
import type { TableSet } from './ruleset.ts';

/**
 * Sets whose elements need not be read again: they have been read, and no other program has changed anything in nf_tables since.
 * The kernel needs seconds to list 100,000 elements.
 */
export class KnownSets {
  readonly #families = new Map<Family, { generation: number; sets: readonly TableSet[] }>();

  /** Takes note of the sets of a family that were read in a generation. */
  set(family: Family, generation: number, sets: readonly TableSet[]): void {
    this.#families.set(family, { generation, sets });
  }

  /** The sets of a family in a generation of nf_tables; none if another program has changed anything since. */
  in(family: Family, generation: number): readonly TableSet[] {
    const known = this.#families.get(family);
    return known?.generation === generation ? known.sets : [];
  }

  /** The generation in which the sets of a family are as they are known. */
  generationOf(family: Family): number | undefined {
    return this.#families.get(family)?.generation;
  }

  /**
   * Takes note of a transaction of the agent for a family. It adds 1 to the generation, and changes no set of another family.
   *
   * @param generation the one before; undefined if another program may have made it
   */
  onCommit(family: Family, generation: number | undefined): void {
    if (generation === undefined) this.#families.delete(family);
    for (const known of this.#families.values()) if (known.generation === generation) known.generation += 1;
  }

  /** Replaces what is known of the sets of a family: those that the agent's transactions keep, or the same ones in less memory. */
  replace(family: Family, sets: readonly TableSet[]): void {
    const known = this.#families.get(family);
    if (known !== undefined) known.sets = sets;
  }
}
