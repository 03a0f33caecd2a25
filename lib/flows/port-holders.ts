import { type Address, formatAddress } from '../cidr/address.ts';
import type { FlowFilter, TimedFlow } from '../netlink/conntrack.ts';
import { endText, IPPROTO, protocolText } from './words.ts';

/** An address, perhaps with a port. */
export interface End {
  readonly address: Address;
  readonly port: number | undefined;
}

/** A connection that leaves with an address and port of the node. */
export interface PortHolder {
  readonly protocol: string;
  /** Who has opened it, and from which port: mostly a pod. */
  readonly source: string;
  readonly destination: string;
  /** The address that was asked for, such as that of a Service; null if it is the destination. */
  readonly through: string | null;
  /** When it began; null if the kernel does not say. */
  readonly since: string | null;
}

/** Ports of the node that one address holds for one destination. */
export interface Holding {
  readonly protocol: string;
  readonly address: string;
  readonly destination: string;
  readonly inUse: number;
  /** Some of them. */
  readonly ports: readonly number[];
}

/** Reads the flows that have the values. */
export type ReadFiltered = (filter: FlowFilter, take: (flow: TimedFlow) => void) => Promise<void>;

/** More are only counted: any program of the node can have as many as conntrack holds. */
const [MOST_HOLDERS, MOST_HOLDINGS, MOST_PORTS] = [10_000, 10_000, 100];

/**
 * Who is behind an address and port of the node. One port can have several connections, each to another destination.
 *
 * @param protocol any with ports if it is undefined
 * @param to only connections to there
 * @returns with how many connections are left out
 * @throws {NetlinkError}
 */
export async function holdersOf(
  read: ReadFiltered,
  { address, port }: { readonly address: Address; readonly port: number },
  protocol: keyof typeof IPPROTO | undefined,
  to: End | undefined,
): Promise<{ readonly holders: readonly PortHolder[]; readonly others: number }> {
  const { family, value: destination } = address;
  const holders: PortHolder[] = [];
  let others = 0;
  for (const number of protocol === undefined ? Object.values(IPPROTO) : [IPPROTO[protocol]]) {
    const filter = {
      direction: 'reply',
      family,
      destination,
      protocol: number,
      destinationPort: port,
    } as const;
    await read(filter, (flow) => {
      if (to !== undefined && !goesTo(flow, to)) return;
      if (holders.length < MOST_HOLDERS) holders.push(holderOf(flow));
      else others += 1;
    });
  }
  return { holders, others };
}

function goesTo({ family, original, reply }: TimedFlow, { address, port }: End): boolean {
  const isThere = (value: bigint, itsPort: number | undefined) =>
    value === address.value && (port === undefined || port === itsPort);
  return (
    family === address.family &&
    (isThere(reply.source, reply.sourcePort) || isThere(original.destination, original.destinationPort))
  );
}

function holderOf({ family, protocol, original, reply, began }: TimedFlow): PortHolder {
  const end = (value: bigint, port: number | undefined) => endText({ family, value }, port);
  const [asked, destination] = [
    end(original.destination, original.destinationPort),
    end(reply.source, reply.sourcePort),
  ];
  return {
    protocol: protocolText(protocol),
    source: end(original.source, original.sourcePort),
    destination,
    through: asked === destination ? null : asked,
    since: began === undefined ? null : new Date(Number(began / 1_000_000n)).toISOString(),
  };
}

export function portHolderText({ protocol, source, destination, through, since }: PortHolder): string {
  const way = `${protocol} ${source} to ${destination}${through === null ? '' : ` through ${through}`}`;
  return since === null ? way : `${way} since ${since}`;
}

/**
 * Which ports of the node an address holds, by destination, the most first.
 *
 * @param isOwn whether it is an address of the node itself, whose connections hold ports without being masqueraded
 * @returns with how many connections to further destinations are left out
 * @throws {NetlinkError}
 */
export async function holdingsOf(
  read: ReadFiltered,
  { family, value }: Address,
  isOwn: boolean,
): Promise<{ readonly holdings: readonly Holding[]; readonly others: number }> {
  const found = new Map<string, Holding & { inUse: number; readonly ports: number[] }>();
  const filter: FlowFilter = { direction: 'original', family, source: value };
  let others = 0;
  await read(filter, ({ protocol, reply }) => {
    const isOfNode = isOwn || reply.destination !== value;
    if (!isOfNode || reply.destinationPort === undefined) return;
    const destination = endText({ family, value: reply.source }, reply.sourcePort);
    const key = `${protocol} ${reply.destination} ${destination}`;
    let one = found.get(key);
    if (one === undefined && found.size === MOST_HOLDINGS) {
      others += 1;
      return;
    }
    if (one === undefined) {
      const address = formatAddress({ family, value: reply.destination });
      one = { protocol: protocolText(protocol), address, destination, inUse: 0, ports: [] };
      found.set(key, one);
    }
    one.inUse += 1;
    if (one.ports.length < MOST_PORTS) one.ports.push(reply.destinationPort);
  });
  return { holdings: [...found.values()].toSorted((a, b) => b.inUse - a.inUse), others };
}
