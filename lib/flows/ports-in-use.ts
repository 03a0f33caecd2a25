import { type Address, type Family, formatAddress } from '../cidr/address.ts';
import type { Flow } from '../netlink/conntrack.ts';
import { endText, IPPROTO, protocolText } from './words.ts';

/** Ports of one address of the node for connections to one destination and its port. */
export interface PortUse {
  readonly family: Family;
  /** The node's address. */
  readonly address: string;
  readonly protocol: string;
  /** The destination with its port. */
  readonly destination: string;
  readonly inUse: number;
  /** How many there are. */
  readonly ports: number;
  /** Who uses them, most first: addresses of pods, or of the node itself. */
  readonly users: readonly { readonly address: string; readonly inUse: number }[];
}

/** Both ends included. */
interface PortRange {
  readonly first: number;
  readonly last: number;
}

/** What the kernel chooses from without a range, if the pod's port is not below (nf_nat_l4proto_unique_tuple). */
const DEFAULT_PORTS: readonly PortRange[] = [{ first: 1024, last: 65_535 }];

/** How many destinations the details are for. */
const TOP = 10;

/** The most users of one destination that are kept. */
const MOST_USERS = 1_000;

const WITH_PORTS: readonly number[] = Object.values(IPPROTO);

/**
 * Counts how many source ports each address of the node uses for each destination. Connections to different destinations
 * can have the same port: if none is left for one destination, new connections to it fail, and no others do.
 *
 * It counts by a hash of 53 bits in tables of numbers, 10 bytes a slot, because 262,144 texts would need too much memory:
 * two of so many destinations have the same hash in one of 250,000 cases.
 */
export class PortCounter {
  readonly #ranges: readonly PortRange[];
  readonly #isOwn: IsOwn;
  readonly #hashes: Float64Array;
  readonly #counts: Uint16Array;
  readonly #highest: Record<Family, number> = { IPv4: 0, IPv6: 0 };
  #used = 0;

  /**
   * @param flows about how many will be added, at most `MOST_FLOWS`
   * @param toPorts an empty list means any port
   */
  constructor(flows: number, toPorts: readonly PortRange[], isOwn: IsOwn) {
    const slots = 2 ** Math.ceil(Math.log2(Math.max(64, 1.5 * flows)));
    this.#ranges = toPorts.length === 0 ? DEFAULT_PORTS : toPorts;
    this.#isOwn = isOwn;
    this.#hashes = new Float64Array(slots);
    this.#counts = new Uint16Array(slots);
  }

  add(flow: Flow): void {
    const hash = this.#hashOf(flow);
    if (hash === undefined) return;
    const mask = this.#hashes.length - 1;
    let slot = hash % this.#hashes.length;
    while (this.#hashes[slot] !== 0 && this.#hashes[slot] !== hash) slot = (slot + 1) & mask;
    if (this.#hashes[slot] === 0) {
      // Many more flows than were told: what is counted already goes on.
      if (4 * this.#used > 3 * this.#hashes.length) return;
      this.#used += 1;
      this.#hashes[slot] = hash;
    }
    // There are no more ports; in a dump of a changing table a flow can be there twice.
    const count = Math.min((this.#counts[slot] ?? 0) + 1, 0xffff);
    this.#counts[slot] = count;
    if (count > this.#highest[flow.family]) this.#highest[flow.family] = count;
  }

  /** The share of its ports that the busiest destination of a family uses, from 0 to 1. */
  highestShare(family: Family): number {
    return Math.min(1, this.#highest[family] / this.#size);
  }

  /** Asks for the details of the busiest destinations. All flows must be added to the result once more. */
  details(): PortDetails {
    const slots = Array.from(this.#hashes.keys()).filter((slot) => this.#hashes[slot] !== 0);
    const busiest = slots.toSorted((a, b) => (this.#counts[b] ?? 0) - (this.#counts[a] ?? 0)).slice(0, TOP);
    const wanted = new Set(busiest.map((slot) => this.#hashes[slot] ?? 0));
    return new PortDetails((flow) => this.#hashOf(flow), wanted, this.#size);
  }

  get #size(): number {
    return this.#ranges.reduce((sum, { first, last }) => sum + last - first + 1, 0);
  }

  /** What address, protocol, destination and its port have in common; undefined if the flow uses none of the ports. */
  #hashOf(flow: Flow): number | undefined {
    const { family, protocol, original, reply, zone } = flow;
    const { destination, destinationPort: port } = reply;
    if (port === undefined || zone !== 0 || !WITH_PORTS.includes(protocol)) return undefined;
    if (!this.#ranges.some(({ first, last }) => first <= port && port <= last)) return undefined;
    // Connections of the node itself use the same ports.
    const isTranslated = destination !== original.source;
    if (!isTranslated && !this.#isOwn({ family, value: destination })) return undefined;
    return hashOf(flow);
  }
}

/** Whether it is an address of the node. */
type IsOwn = (address: Address) => boolean;

/** Who uses the ports of the busiest destinations. */
export class PortDetails {
  readonly #hashOf: (flow: Flow) => number | undefined;
  readonly #wanted: ReadonlySet<number>;
  readonly #size: number;
  readonly #found = new Map<number, { flow: Flow; inUse: number; users: Map<bigint, number> }>();

  constructor(hashOf: (flow: Flow) => number | undefined, wanted: ReadonlySet<number>, size: number) {
    this.#hashOf = hashOf;
    this.#wanted = wanted;
    this.#size = size;
  }

  add(flow: Flow): void {
    const hash = this.#hashOf(flow);
    if (hash === undefined || !this.#wanted.has(hash)) return;
    const found = this.#found.get(hash) ?? { flow, inUse: 0, users: new Map() };
    found.inUse += 1;
    const { source } = flow.original;
    const known = found.users.get(source);
    if (known !== undefined || found.users.size < MOST_USERS) found.users.set(source, (known ?? 0) + 1);
    this.#found.set(hash, found);
  }

  /** The busiest first. */
  get uses(): readonly PortUse[] {
    const uses = Array.from(this.#found.values(), ({ flow, inUse, users }): PortUse => {
      const { family, protocol, reply } = flow;
      return {
        family,
        address: formatAddress({ family, value: reply.destination }),
        protocol: protocolText(protocol),
        destination: endText({ family, value: reply.source }, reply.sourcePort),
        inUse,
        ports: this.#size,
        users: [...users]
          .toSorted(([, a], [, b]) => b - a)
          .map(([value, ports]) => ({ address: formatAddress({ family, value }), inUse: ports })),
      };
    });
    return uses.toSorted((a, b) => b.inUse - a.inUse);
  }
}

/**
 * 53 bits, and never 0: two times the mixing step of MurmurHash3, with different seeds. An address of IPv4 fits into a
 * number; to take large numbers apart makes garbage.
 */
function hashOf({ family, protocol, reply }: Flow): number {
  const hash = { a: 0x9e37_79b9, b: 0x85eb_ca6b };
  add(hash, (protocol << 16) | (reply.sourcePort ?? 0));
  for (const address of [reply.source, reply.destination]) {
    if (family === 'IPv4') add(hash, Number(address));
    else for (let rest = address, word = 0; word < 4; word += 1, rest >>= 32n) add(hash, Number(rest & LOW));
  }
  return (hash.a >>> 0) * 2 ** 21 + (hash.b >>> 11) || 1;
}

const LOW = 0xffff_ffffn;

function add(hash: { a: number; b: number }, word: number): void {
  hash.a = mix(hash.a ^ word, 0xcc9e_2d51);
  hash.b = mix(hash.b ^ word, 0x1b87_3593);
}

function mix(value: number, factor: number): number {
  const one = Math.imul(value, factor);
  const two = Math.imul(one ^ (one >>> 15), 0x85eb_ca6b);
  return two ^ (two >>> 13);
}
