import { type Address, type Family, formatAddress } from '../cidr/address.ts';
import type { PortRange } from '../dataplane/ports.ts';
import type { Flow } from '../netlink/conntrack.ts';
import { endText, IPPROTO, protocolText } from './words.ts';

/** Ports of one address of the node for connections to one destination and its port. */
export interface PortUse {
  readonly family: Family;
  readonly address: string;
  readonly protocol: string;
  readonly destination: string;
  readonly inUse: number;
  /** How many there are. */
  readonly ports: number;
  /** Who uses them, most first: addresses of pods, or of the node itself. */
  readonly users: readonly { readonly address: string; readonly inUse: number }[];
}

/**
 * What the kernel chooses from without a range: each port of a pod has one of its own kind, because a server may ask for one that
 * only root can use, as those of NFS do (nf_nat_l4proto_unique_tuple).
 */
const DEFAULT_POOLS: readonly Pool[] = [
  [{ first: 1024, last: 65_535 }],
  [{ first: 600, last: 1023 }],
  [{ first: 1, last: 511 }],
];

/** Ports of which the kernel chooses one. */
type Pool = readonly PortRange[];

const TOP = 10;

const MOST_USERS = 1_000;

const WITH_PORTS: readonly number[] = Object.values(IPPROTO);

/**
 * Counts how many source ports each address of the node uses for each destination: if none is left for one, only new
 * connections to that one fail.
 *
 * It is a hash table of 7 bytes a slot, because 262,144 texts would need too much memory. One half of a hash of 64 bits says
 * where the search for a slot begins, and the other half tells destinations apart.
 */
export class PortCounter {
  readonly #pools: readonly Pool[];
  readonly #isOwn: IsOwn;
  /** Halves of hashes; 0 for a free slot. */
  readonly #tags: Uint32Array;
  readonly #counts: Uint16Array;
  /** Of which pool the counted ports are. */
  readonly #poolOf: Uint8Array;
  /** Shares of a pool. */
  readonly #highest: Record<Family, number> = { IPv4: 0, IPv6: 0 };
  #used = 0;

  /**
   * @param flows about how many will be added, at most `MOST_FLOWS`
   * @param toPorts an empty list means any port
   */
  constructor(flows: number, toPorts: readonly PortRange[], isOwn: IsOwn) {
    const slots = 2 ** Math.ceil(Math.log2(Math.max(64, 1.5 * flows)));
    this.#pools = toPorts.length === 0 ? DEFAULT_POOLS : [toPorts];
    this.#isOwn = isOwn;
    this.#tags = new Uint32Array(slots);
    this.#counts = new Uint16Array(slots);
    this.#poolOf = new Uint8Array(slots);
  }

  add(flow: Flow): void {
    const pool = this.#poolUsedBy(flow);
    if (pool === undefined) return;
    const { tag, slot } = this.#find(flow, pool);
    if (this.#tags[slot] === 0) {
      // Many more flows than were told: what is counted already goes on.
      if (4 * this.#used > 3 * this.#tags.length) return;
      this.#used += 1;
      this.#tags[slot] = tag;
      this.#poolOf[slot] = pool;
    }
    // There are no more ports; in a dump of a changing table a flow can be there twice.
    const count = Math.min((this.#counts[slot] ?? 0) + 1, 0xffff);
    this.#counts[slot] = count;
    this.#highest[flow.family] = Math.max(this.#highest[flow.family], this.#shareIn(slot));
  }

  /** The largest share of the ports of its kind that a destination of a family uses, from 0 to 1. */
  highestShare(family: Family): number {
    return Math.min(1, this.#highest[family]);
  }

  /** Asks who uses the ports of the busiest destinations. All flows must be added to the result once more. */
  details() {
    // A list of all slots would need ten times the memory of the tables.
    const busiest: number[] = [];
    for (const slot of this.#counts.keys()) {
      if (this.#shareIn(slot) <= (busiest.length < TOP ? 0 : this.#shareIn(busiest.at(-1) ?? 0))) continue;
      busiest.push(slot);
      busiest.sort((a, b) => this.#shareIn(b) - this.#shareIn(a)).splice(TOP);
    }
    const found = new Map<number, BusyDestination>();
    const add = (flow: Flow): void => {
      const pool = this.#poolUsedBy(flow);
      if (pool === undefined) return;
      const { slot } = this.#find(flow, pool);
      if (!busiest.includes(slot)) return;
      const one = found.get(slot) ?? { flow, inUse: 0, ports: this.#sizeOf(slot), users: new Map() };
      one.inUse += 1;
      const { source } = flow.original;
      const known = one.users.get(source);
      if (known !== undefined || one.users.size < MOST_USERS) one.users.set(source, (known ?? 0) + 1);
      found.set(slot, one);
    };
    return { add, uses: () => portUses(found.values()) };
  }

  #sizeOf(slot: number): number {
    const pool = this.#pools[this.#poolOf[slot] ?? 0] ?? [];
    return pool.reduce((sum, { first, last }) => sum + last - first + 1, 0);
  }

  #shareIn(slot: number): number {
    return (this.#counts[slot] ?? 0) / this.#sizeOf(slot);
  }

  /** Of which pool the flow has a port; undefined if of none. Connections of the node itself use the same ports, if they leave the node. */
  #poolUsedBy({ family, protocol, original, reply, zone }: Flow): number | undefined {
    const { destination, destinationPort: port } = reply;
    if (port === undefined || zone !== 0 || !WITH_PORTS.includes(protocol)) return undefined;
    const pool = this.#pools.findIndex((ranges) =>
      ranges.some(({ first, last }) => first <= port && port <= last),
    );
    if (pool === -1) return undefined;
    if (destination === original.source && !this.#isOwn({ family, value: destination })) return undefined;
    return this.#isOwn({ family, value: reply.source }) ? undefined : pool;
  }

  /** The slot for address, protocol, destination and its port, and the pool; a free one if they have none yet. */
  #find(flow: Flow, pool: number): { readonly tag: number; readonly slot: number } {
    const mask = this.#tags.length - 1;
    const { tag, start } = hashOf(flow, pool);
    let slot = start & mask;
    while (this.#tags[slot] !== 0 && this.#tags[slot] !== tag) slot = (slot + 1) & mask;
    return { tag, slot };
  }
}

type IsOwn = (address: Address) => boolean;

/** A flow of a destination, and who uses its ports. */
interface BusyDestination {
  readonly flow: Flow;
  inUse: number;
  readonly ports: number;
  readonly users: Map<bigint, number>;
}

/** The busiest first. */
function portUses(found: Iterable<BusyDestination>): readonly PortUse[] {
  const uses = Array.from(found, ({ flow, inUse, ports, users }): PortUse => {
    const { family, protocol, reply } = flow;
    return {
      family,
      address: formatAddress({ family, value: reply.destination }),
      protocol: protocolText(protocol),
      destination: endText({ family, value: reply.source }, reply.sourcePort),
      inUse,
      ports,
      users: [...users]
        .toSorted(([, a], [, b]) => b - a)
        .map(([value, used]) => ({ address: formatAddress({ family, value }), inUse: used })),
    };
  });
  return uses.toSorted((a, b) => b.inUse / b.ports - a.inUse / a.ports);
}

/**
 * Two times the mixing step of MurmurHash3, with different seeds; the tag is never 0. An address of IPv4 fits into a
 * number; to take large numbers apart makes garbage.
 */
function hashOf(
  { family, protocol, reply }: Flow,
  pool: number,
): { readonly tag: number; readonly start: number } {
  const hash = { a: 0x9e37_79b9, b: 0x85eb_ca6b };
  add(hash, (pool << 24) | (protocol << 16) | (reply.sourcePort ?? 0));
  for (const address of [reply.source, reply.destination]) {
    if (family === 'IPv4') add(hash, Number(address));
    else for (let rest = address, word = 0; word < 4; word += 1, rest >>= 32n) add(hash, Number(rest & LOW));
  }
  return { tag: hash.a >>> 0 || 1, start: hash.b >>> 0 };
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
