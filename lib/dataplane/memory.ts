import type { Family } from '../cidr/address.ts';
import type { Counts } from './dataplane.ts';
import { DataplaneError } from './error.ts';
import { type Netlink, noAnswer, type Requests } from './netlink.ts';

/** The agent's rules of one family as the kernel sends them over netlink. Nothing in it is decoded but counts. */
export interface Seen {
  /** The generation of nf_tables before they were read. */
  readonly generation: number;
  /** Equal for two looks if nothing but counts has changed; undefined if the agent has no rules there. */
  readonly fingerprint: string | undefined;
}

export interface Look<Found> {
  readonly found: Found;
  /** Whether it is what was trusted last. */
  readonly isTrusted: boolean;
  /** The generation of nf_tables before the look; undefined if netlink does not tell it. */
  readonly generation: number | undefined;
  /** Undefined without netlink, or if the rules changed while a tool read them. */
  readonly proof: Proof | undefined;
}

/** What the kernel sends for something that was found. */
interface Proof {
  readonly fingerprint: string;
  /** The last generation of nf_tables in which it was so. */
  readonly generation: number;
  /** When a tool must look again, by performance.now(). */
  readonly until: number;
}

/** After this time a tool looks again, in case that a fingerprint does not show everything. */
const TRUST_MS = 3_600_000;

/**
 * The only memory of what the kernel holds: what was found to be equal to the policy, and what the kernel sent for it over
 * netlink. As long as the kernel sends the same, a tool would find the same again, and none is started.
 */
export class KernelMemory<Found, Raw extends Seen> {
  readonly #netlink: Netlink | undefined;
  readonly #see: (requests: Requests, family: Family) => Promise<Raw>;
  readonly #isSame: (a: Found, b: Found) => boolean;
  readonly #trusted = new Map<Family, Pick<Look<Found>, 'found' | 'proof'>>();
  /** Writes of each family that were begun, those that have ended, and how many of them have written all rules again. */
  readonly #writes = { IPv4: { begun: 0, ended: 0, all: 0 }, IPv6: { begun: 0, ended: 0, all: 0 } };

  /**
   * @param see reads the rules over netlink
   * @param isSame whether two looks have found the same
   */
  constructor(
    netlink: Netlink | undefined,
    see: (requests: Requests, family: Family) => Promise<Raw>,
    isSame: (a: Found, b: Found) => boolean,
  ) {
    this.#netlink = netlink;
    this.#see = see;
    this.#isSame = isSame;
  }

  /**
   * Looks at the rules.
   *
   * @param read gets what the kernel sends, if netlink works, and what was trusted last if the kernel sends the same for it
   */
  async look(
    family: Family,
    read: (seen: Raw | undefined, known: Found | undefined) => Promise<Found>,
  ): Promise<Look<Found>> {
    const trusted = this.#trusted.get(family);
    const proof = trusted?.proof;
    const isValid = proof !== undefined && performance.now() < proof.until;
    const now = isValid
      ? await this.#netlink?.use((requests) => requests.generation()).catch(noAnswer)
      : undefined;
    // Nothing at all has changed since.
    if (trusted !== undefined && now !== undefined && now.id === proof?.generation)
      return { ...trusted, isTrusted: true, generation: now.id };
    const seen = await this.#seeAll(family);
    const isKnown = isValid && proof.fingerprint === seen?.fingerprint;
    const found = await read(seen, isKnown ? trusted?.found : undefined);
    return {
      found,
      isTrusted: trusted !== undefined && (found === trusted.found || this.#isSame(found, trusted.found)),
      generation: seen?.generation,
      proof: isKnown && seen ? { ...proof, generation: seen.generation } : await this.#prove(family, seen),
    };
  }

  /** Proves that a tool has just read what the kernel had sent before; undefined if it changed meanwhile. */
  async #prove(family: Family, seen: Raw | undefined): Promise<Proof | undefined> {
    if (seen?.fingerprint === undefined) return undefined;
    const { fingerprint, generation } = seen;
    const after = await this.#seeAll(family);
    // Different before and after: it is unknown which of the two the tool has read.
    if (after?.fingerprint !== fingerprint) return undefined;
    // Otherwise the tool may have read something else, which was there for a moment: the next look uses it again.
    const trustMs = after.generation === generation ? TRUST_MS : 0;
    return { fingerprint, generation, until: performance.now() + trustMs };
  }

  /** Remembers what a look has found, because nothing in it differs from the policy. */
  trust(family: Family, { found, proof }: Pick<Look<Found>, 'found' | 'proof'>): void {
    this.#trusted.set(family, { found, proof });
  }

  /** What was trusted last, and what the kernel sends for it now; undefined if it is not there, or cannot be seen. */
  async recall(family: Family): Promise<{ readonly found: Found; readonly seen: Raw } | undefined> {
    const trusted = this.#trusted.get(family);
    const seen = trusted?.proof && (await this.#seeAll(family));
    if (trusted === undefined || seen === undefined) return undefined;
    return seen.fingerprint === trusted.proof?.fingerprint ? { found: trusted.found, seen } : undefined;
  }

  /** The generation of nf_tables up to which the rules of these families are known; undefined if they are not. */
  knownUntil(families: readonly Family[]): number | undefined {
    const known = families.flatMap((family) => this.#trusted.get(family)?.proof?.generation ?? []);
    return known.length < families.length ? undefined : Math.min(...known);
  }

  /**
   * Carries out a change. If it fails, it must have changed nothing.
   *
   * @param remakes whether it writes all rules again, so that their counts begin at zero
   */
  async write(family: Family, remakes: boolean, change: () => Promise<void>): Promise<void> {
    this.#trusted.delete(family);
    const writes = this.#writes[family];
    writes.begun += 1;
    try {
      await change();
      if (remakes) writes.all += 1;
    } finally {
      writes.ended += 1;
    }
  }

  /**
   * Reads counts.
   *
   * @throws {DataplaneError} `raced` if a change was carried out meanwhile: it is unknown which rules were read
   */
  async count(family: Family, read: () => Promise<Counts['rules']>): Promise<Counts> {
    const writes = this.#writes[family];
    const { ended } = writes;
    const rules = await read();
    if (writes.begun === ended) return { incarnation: writes.all, rules };
    throw new DataplaneError('raced', 'the rules were changed while they were counted', 'count them again');
  }

  async #seeAll(family: Family): Promise<Raw | undefined> {
    return await this.#netlink?.use((requests) => this.#see(requests, family)).catch(noAnswer);
  }
}
