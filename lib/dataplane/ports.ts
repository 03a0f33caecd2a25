import type { Advice } from '../text/advice.ts';

export const PORT_PROTOCOLS = ['tcp', 'udp', 'sctp'] as const;

export type PortProtocol = (typeof PORT_PROTOCOLS)[number];

/** How source ports of masqueraded connections are chosen. */
export interface PortOptions {
  /** Whether they are chosen at random, or for which protocols; others keep theirs if they can. */
  readonly randomFully: boolean | readonly PortProtocol[];
  /** An empty list means any port. */
  readonly toPorts: readonly PortRange[];
}

/** A range of source ports for masqueraded connections, both ends included. */
export interface PortRange {
  readonly first: number;
  readonly last: number;
}

/** Reads ranges such as `10000-29999,32768-51819`; undefined if the text is invalid, a port is 0, or ranges overlap. */
export function parsePortRanges(text: string): readonly PortRange[] | undefined {
  const ranges: PortRange[] = [];
  for (const part of text.split(',')) {
    const match = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(part);
    if (match === null) return undefined;
    const first = Number(match[1]);
    const last = Number(match[2] ?? match[1]);
    const overlaps = ranges.some((range) => overlap(range, { first, last }));
    if (first < 1 || last > 65_535 || first > last || overlaps) return undefined;
    ranges.push({ first, last });
  }
  return ranges;
}

/** A range and its share: of all connections that reach its rule, `size` out of `left` take it. */
interface PortShare {
  readonly range: PortRange;
  readonly size: number;
  readonly left: number;
}

/** The shares that make every port of all ranges equally likely. The last range takes all remaining connections. */
export function spreadEvenly(ranges: readonly PortRange[]): readonly PortShare[] {
  let left = ranges.reduce((sum, range) => sum + sizeOf(range), 0);
  return ranges.map((range) => {
    const share = { range, size: sizeOf(range), left };
    left -= share.size;
    return share;
  });
}

interface PortRule {
  /** Undefined for the last rule, of all protocols. */
  readonly protocol: PortProtocol | undefined;
  /** Undefined for any port. */
  readonly share: PortShare | undefined;
  readonly isRandom: boolean;
}

/** The rules that masquerade, in order: one for each protocol with ports of its own and each range, and one for the rest. */
export function portRules({ toPorts, randomFully }: PortOptions): readonly PortRule[] {
  const isRandom = (protocol: PortProtocol) =>
    typeof randomFully === 'boolean' ? randomFully : randomFully.includes(protocol);
  // Without ranges, a protocol needs a rule only if the last one chooses its ports in another way.
  const special = PORT_PROTOCOLS.filter(
    (one) => toPorts.length > 0 || isRandom(one) !== (randomFully === true),
  );
  const shares = toPorts.length > 0 ? spreadEvenly(toPorts) : [undefined];
  return [
    ...special.flatMap((protocol) =>
      shares.map((share) => ({ protocol, share, isRandom: isRandom(protocol) })),
    ),
    { protocol: undefined, share: undefined, isRandom: randomFully === true },
  ];
}

function sizeOf({ first, last }: PortRange): number {
  return last - first + 1;
}

/** Ports to which packets come that are not of masqueraded connections, and of whom they are. */
export const TAKEN_PORTS: readonly (PortRange & {
  readonly of: string;
  /** The kind of the links that have it; undefined for each node. */
  readonly link?: string;
})[] = [
  { first: 30_000, last: 32_767, of: 'NodePorts' },
  { first: 4_789, last: 4_789, of: 'VXLAN', link: 'vxlan' },
  { first: 8_472, last: 8_472, of: 'VXLAN', link: 'vxlan' },
  { first: 6_081, last: 6_081, of: 'GENEVE', link: 'geneve' },
  { first: 51_820, last: 51_820, of: 'WireGuard', link: 'wireguard' },
];

/** What goes wrong if ranges hold ports that are taken; undefined if they hold none. */
export function takenAdvice(ranges: readonly PortRange[], taken: typeof TAKEN_PORTS): Advice | undefined {
  const held = taken.filter((one) => ranges.some((range) => overlap(range, one)));
  if (held.length === 0) return undefined;
  const names = held.map((one) => `${portsText(one)} (${one.of})`).join(', ');
  return {
    message: `--to-ports holds ${names}: answers to masqueraded connections that get such a port are lost`,
    remedy: 'leave these ports out',
  };
}

function overlap(a: PortRange, b: PortRange): boolean {
  return a.first <= b.last && b.first <= a.last;
}

/** Ports as iptables and nft print them. */
export function portsText({ first, last }: PortRange): string {
  return first === last ? String(first) : `${first}-${last}`;
}
