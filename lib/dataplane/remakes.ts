import type { Family } from '../policy/policy.ts';
import type { Counts, Plan } from './dataplane.ts';
import { DataplaneError } from './error.ts';

/** Keeps the counts of rules that were made anew apart from those of the rules before. */
export class Remakes {
  readonly #remade: Record<Family, number> = { IPv4: 0, IPv6: 0 };
  readonly #begun: Record<Family, number> = { IPv4: 0, IPv6: 0 };
  readonly #ended: Record<Family, number> = { IPv4: 0, IPv6: 0 };

  /** Carries out a plan, by a function that leaves everything as it was where it fails. */
  async apply({ family, remakes }: Plan, write: () => Promise<void>): Promise<void> {
    this.#begun[family] += 1;
    try {
      await write();
      if (remakes) this.#remade[family] += 1;
    } finally {
      this.#ended[family] += 1;
    }
  }

  /** @throws {DataplaneError} `raced` where a plan was carried out meanwhile: nobody knows which rules were read */
  async count(family: Family, read: () => Promise<Counts['rules']>): Promise<Counts> {
    const ended = this.#ended[family];
    const rules = await read();
    if (this.#begun[family] === ended) return { remade: this.#remade[family], rules };
    throw new DataplaneError('raced', 'the rules were changed while they were counted', 'count them again');
  }
}
