import type { Family } from '../cidr/address.ts';
import type { Comparison } from './dataplane.ts';
import type { Netlink, Requests } from './netlink.ts';

/** The agent's rules of one family as the kernel sends them over netlink. Nothing in it is decoded but counts. */
export interface Seen {
  /** The generation of nf_tables before they were read. */
  readonly generation: number;
  /** Equal for two looks if nothing but counts has changed; undefined if the agent has no rules there. */
  readonly fingerprint: string | undefined;
}

/** What a look has found. */
export interface Look<Found> {
  readonly found: Found;
  /** Remembers it. Call it if nothing in it differs from the policy. */
  readonly prove: () => void;
}

/** A look in which nothing differed from the policy. */
interface Proven<Found> {
  readonly found: Found;
  readonly fingerprint: string;
  /** The last generation of nf_tables in which it was so. */
  generation: number;
  /** When a tool must look again, by performance.now(). */
  readonly trustedUntil: number;
}

/** After this time a tool looks again, in case that a fingerprint does not show everything. */
const TRUST_MS = 3_600_000;

/**
 * Spares looks through a tool: as long as the kernel sends the same bytes over netlink as it did when the tool found
 * nothing to change, the tool would find the same again.
 */
export class LookMemory<Found, Raw extends Seen> {
  readonly #netlink: Netlink | undefined;
  readonly #see: (requests: Requests, family: Family) => Promise<Raw>;
  readonly #proven = new Map<Family, Proven<Found>>();

  /** @param see reads the rules over netlink */
  constructor(netlink: Netlink | undefined, see: (requests: Requests, family: Family) => Promise<Raw>) {
    this.#netlink = netlink;
    this.#see = see;
  }

  /** What the kernel sends now; undefined if netlink gives no answer. */
  async see(family: Family): Promise<Seen | undefined> {
    const known = this.#proven.get(family);
    const now = known && (await this.#netlink?.ask((requests) => requests.generation()));
    // Nothing at all has changed since.
    if (known !== undefined && now?.id === known.generation) return known;
    return await this.#seeAll(family);
  }

  async #seeAll(family: Family): Promise<Raw | undefined> {
    const seen = await this.#netlink?.ask((requests) => this.#see(requests, family));
    const known = this.#proven.get(family);
    if (seen !== undefined && known !== undefined && known.fingerprint === seen.fingerprint)
      known.generation = seen.generation;
    return seen;
  }

  /**
   * Looks at the rules, through the tool only if that is needed.
   *
   * @param seen what the kernel has sent just now
   * @param byTool the look through the tool
   * @param nothing what the tool would find if the agent has no rules there
   */
  async look(
    family: Family,
    seen: Seen | undefined,
    byTool: () => Promise<Found>,
    nothing: Found,
  ): Promise<Look<Found>> {
    const prove = () => {};
    if (seen !== undefined && seen.fingerprint === undefined) return { found: nothing, prove };
    const known = this.#proven.get(family);
    const now = performance.now();
    if (known !== undefined && seen?.fingerprint === known.fingerprint && now < known.trustedUntil)
      return { found: known.found, prove };
    const found = await byTool();
    const after = seen && (await this.#seeAll(family));
    // Different before and after: it is unknown which of the two the tool has read.
    if (after?.fingerprint === undefined || after.fingerprint !== seen?.fingerprint) return { found, prove };
    const { fingerprint, generation } = after;
    // Otherwise the tool may have read something else, which was there for a moment: the next look uses it again.
    const trustedUntil = generation === seen?.generation ? now + TRUST_MS : now;
    return { found, prove: () => this.#proven.set(family, { found, fingerprint, generation, trustedUntil }) };
  }

  /** What was proven, if it is still there, and what the kernel sends for it; undefined if that cannot be told. */
  async recall(family: Family): Promise<{ readonly found: Found; readonly seen: Raw } | undefined> {
    const known = this.#proven.get(family);
    const seen = known && (await this.#seeAll(family));
    if (known === undefined || seen?.fingerprint !== known.fingerprint) return undefined;
    return { found: known.found, seen };
  }

  /** What the kernel sends if what was proven is still there, or how that differs. */
  async compare(family: Family): Promise<Seen | Exclude<Comparison, 'same'>> {
    const known = this.#proven.get(family);
    if (known === undefined) {
      // There is nothing to compare the rules with.
      const now = await this.#netlink?.ask((requests) => requests.generation());
      return now === undefined ? 'unknown' : 'unproven';
    }
    const seen = await this.see(family);
    if (seen === undefined) return 'unknown';
    // The agent itself may have begun a change meanwhile.
    if (this.#proven.get(family) !== known) return 'unproven';
    return seen.fingerprint === known.fingerprint ? seen : 'changed';
  }

  /** Call it before the agent changes the rules. */
  forget(family: Family): void {
    this.#proven.delete(family);
  }
}
