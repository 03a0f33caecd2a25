import type { Family } from '../policy/policy.ts';
import type { Counts, Plan } from './dataplane.ts';
import { DataplaneError } from './error.ts';

/** Counts how often all rules were written again, because their counts then begin at zero. */
export class Remakes {
  readonly #remade: Record<Family, number> = { IPv4: 0, IPv6: 0 };
  readonly #begun: Record<Family, number> = { IPv4: 0, IPv6: 0 };
  readonly #ended: Record<Family, number> = { IPv4: 0, IPv6: 0 };

  /** Carries out a plan. If `write` fails, it must have changed nothing. */
  async apply({ family, remakes }: Plan, write: () => Promise<void>): Promise<void> {
    this.#begun[family] += 1;
    try {
      await write();
      if (remakes) this.#remade[family] += 1;
    } finally {
      this.#ended[family] += 1;
    }
  }

  /**
   * Reads the counts.
   *
   * @throws {DataplaneError} `raced` if a plan was carried out meanwhile: it is unknown which rules were read
   */
  async count(family: Family, read: () => Promise<Counts['rules']>): Promise<Counts> {
    const ended = this.#ended[family];
    const rules = await read();
    if (this.#begun[family] === ended) return { remade: this.#remade[family], rules };
    throw new DataplaneError('raced', 'the rules were changed while they were counted', 'count them again');
  }
}
