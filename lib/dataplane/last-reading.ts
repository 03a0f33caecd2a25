import type { Family } from '../cidr/address.ts';
import type { Netlink, Requests } from './netlink.ts';
import type { Backend } from './options.ts';

/** What was read of one family over netlink. */
export interface Reading<Found> {
  readonly found: Found;
  /** The generation of nf_tables before it was read. */
  readonly generation: number;
  /** When everything is read again, by performance.now(), in case that events do not tell everything. */
  readonly until: number;
}

const READ_AGAIN_MS = 3_600_000;
const MOST_READINGS = 3;

/** Reads the agent's rules, but nothing that no program has changed since the last reading. */
export class LastReading<Found> {
  readonly #netlink: Pick<Netlink, 'use' | 'takeTouched'>;
  readonly #backend: Backend;
  readonly #read: (requests: Requests, family: Family, known: Found | undefined) => Promise<Found>;
  readonly #readings = new Map<Family, Reading<Found>>();

  /** @param read reads all but what is slow to read, and is known */
  constructor(
    netlink: Pick<Netlink, 'use' | 'takeTouched'>,
    backend: Backend,
    read: (requests: Requests, family: Family, known: Found | undefined) => Promise<Found>,
  ) {
    this.#netlink = netlink;
    this.#backend = backend;
    this.#read = read;
  }

  /**
   * If another program changes the rules meanwhile, they are read again. What this returns in the end may then be torn, and is
   * not remembered: an event will lead to another reading.
   *
   * @param isWhole reads everything
   * @throws {NetlinkError}
   */
  async read(family: Family, isWhole: boolean): Promise<Reading<Found>> {
    let touched = this.#netlink.takeTouched(family, this.#backend);
    const last = this.forget(family);
    let known = isWhole || last === undefined || performance.now() >= last.until ? undefined : last;
    if (known !== undefined && touched !== 'unknown' && !touched.rules) {
      this.keep(family, known);
      return known;
    }
    for (let readings = 1; ; readings += 1) {
      if (touched === 'unknown' || touched.elements) known = undefined;
      const until = known?.until ?? performance.now() + READ_AGAIN_MS;
      const reading = await this.#netlink.use(async (requests) => {
        const { id: generation } = await requests.generation();
        return { found: await this.#read(requests, family, known?.found), generation, until };
      });
      touched = this.#netlink.takeTouched(family, this.#backend);
      if (touched === 'unknown' || (touched.rules && readings === MOST_READINGS)) return reading;
      if (touched.rules) continue;
      this.keep(family, reading);
      return reading;
    }
  }

  /** What was read last, which is not used any more. */
  forget(family: Family): Reading<Found> | undefined {
    const reading = this.#readings.get(family);
    this.#readings.delete(family);
    return reading;
  }

  /** What the kernel holds now. */
  keep(family: Family, reading: Reading<Found>): void {
    this.#readings.set(family, reading);
  }
}
