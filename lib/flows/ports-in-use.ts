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
const DEFAULT_POOLS: readonly (readonly PortRange[])[] = [
  [{ first: 1024, last: 65_535 }],
  [{ first: 600, last: 1023 }],
  [{ first: 1, last: 511 }],
];

/** Ports of which the kernel chooses one. */
interface Pool {
  readonly ranges: readonly PortRange[];
  readonly size: number;
  /** How many of them are in use for each destination, by a hash: 262,144 texts would need 50 MB, as many numbers 19. */
  readonly inUse: Map<number, number>;
}

const TOP = 10;

const MOST_USERS = 1_000;

const WITH_PORTS: readonly number[] = Object.values(IPPROTO);

type IsOwn = (address: Address) => boolean;

/**
 * Counts how many source ports each address of the node uses for each destination: if none is left for one, only new
 * connections to that one fail.
 */
export class PortCounter {
  readonly #pools: readonly Pool[];
  readonly #isOwn: IsOwn;
  /** Shares of a pool. */
  readonly #highest: Record<Family, number> = { IPv4: 0, IPv6: 0 };

  /** @param toPorts an empty list means any port */
  constructor(toPorts: readonly PortRange[], isOwn: IsOwn) {
    this.#pools = (toPorts.length === 0 ? DEFAULT_POOLS : [toPorts]).map((ranges) => {
      const size = ranges.reduce((sum, { first, last }) => sum + last - first + 1, 0);
      return { ranges, size, inUse: new Map() };
    });
    this.#isOwn = isOwn;
  }

  add(flow: Flow): void {
    const pool = this.#poolUsedBy(flow);
    if (pool === undefined) return;
    const key = hashOf(flow);
    const inUse = (pool.inUse.get(key) ?? 0) + 1;
    pool.inUse.set(key, inUse);
    this.#highest[flow.family] = Math.max(this.#highest[flow.family], inUse / pool.size);
  }

  /** The largest share of the ports of its kind that a destination of a family uses, from 0 to 1. */
  highestShare(family: Family): number {
    // In a dump of a changing table a flow can be there twice.
    return Math.min(1, this.#highest[family]);
  }

  /** Asks who uses the ports of the busiest destinations. All flows must be added to the result once more. */
  details() {
    // A list of all destinations would need more memory than the counts.
    const busiest: { readonly key: number; readonly pool: Pool; readonly share: number }[] = [];
    for (const pool of this.#pools)
      for (const [key, inUse] of pool.inUse) {
        const share = inUse / pool.size;
        if (busiest.length === TOP && share <= (busiest.at(-1)?.share ?? 0)) continue;
        busiest.push({ key, pool, share });
        busiest.sort((a, b) => b.share - a.share).splice(TOP);
      }
    const found = new Map<(typeof busiest)[number], BusyDestination>();
    const add = (flow: Flow): void => {
      const pool = this.#poolUsedBy(flow);
      if (pool === undefined) return;
      const key = hashOf(flow);
      const place = busiest.find((one) => one.key === key && one.pool === pool);
      if (place === undefined) return;
      const one = found.get(place) ?? { flow, inUse: 0, ports: pool.size, users: new Map() };
      one.inUse += 1;
      const { source } = flow.original;
      const known = one.users.get(source);
      if (known !== undefined || one.users.size < MOST_USERS) one.users.set(source, (known ?? 0) + 1);
      found.set(place, one);
    };
    return { add, uses: () => portUses(found.values()) };
  }

  /** The pool that the flow has a port of, if any. Connections of the node itself use the same ports, if they leave the node. */
  #poolUsedBy({ family, protocol, original, reply, zone }: Flow): Pool | undefined {
    const { destination, destinationPort: port } = reply;
    if (port === undefined || zone !== 0 || !WITH_PORTS.includes(protocol)) return undefined;
    const pool = this.#pools.find(({ ranges }) =>
      ranges.some(({ first, last }) => first <= port && port <= last),
    );
    if (pool === undefined) return undefined;
    if (destination === original.source && !this.#isOwn({ family, value: destination })) return undefined;
    return this.#isOwn({ family, value: reply.source }) ? undefined : pool;
  }
}

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
 * Of address, protocol, destination and its port: 53 bits of two times the mixing step of MurmurHash3, with different seeds. An
 * address of IPv4 fits into a number; to take large numbers apart makes garbage.
 */
function hashOf({ family, protocol, reply }: Flow): number {
  const hash = { a: 0x9e37_79b9, b: 0x85eb_ca6b };
  add(hash, (protocol << 16) | (reply.sourcePort ?? 0));
  for (const address of [reply.source, reply.destination]) {
    if (family === 'IPv4') add(hash, Number(address));
    else for (let rest = address, word = 0; word < 4; word += 1, rest >>= 32n) add(hash, Number(rest & LOW));
  }
  return (hash.a >>> 0) * 2 ** 21 + (hash.b >>> 11);
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
