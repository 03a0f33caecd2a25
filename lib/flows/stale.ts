import type { Address, Family } from '../cidr/address.ts';
import type { Flow } from '../netlink/conntrack.ts';
import { type FlowVerdict, VERDICT_TEXT, type Verdict } from '../policy/policy.ts';
import { endText, IPPROTO, protocolText } from './words.ts';

export interface FlowRules {
  readonly verdict: FlowVerdict;
  readonly isOwn: (address: Address) => boolean;
}

/** The words for protocols in metrics. */
export const STALE_PROTOCOLS = ['tcp', 'udp', 'other'] as const;

/** Which flows were counted: those of one family and protocol whose packets still have one verdict. */
export interface StaleCount {
  readonly family: Family;
  readonly protocol: (typeof STALE_PROTOCOLS)[number];
  readonly kept: Verdict;
  readonly flows: number;
}

/** LAST_ACK, TIME_WAIT and CLOSE in linux/netfilter/nf_conntrack_tcp.h: nothing more is sent. */
const ENDED_TCP: readonly (number | undefined)[] = [6, 7, 8];

/** IPv4: 224.0.0.0 and above: multicast, reserved, broadcast. IPv6: ff00::/8 (RFC 5771, RFC 1112, RFC 4291). */
const FIRST_NOT_UNICAST: Readonly<Record<Family, bigint>> = { IPv4: 0xe0n << 24n, IPv6: 0xffn << 120n };

/**
 * The verdict that a flow keeps although the policy has another one now; undefined if it has none to keep. NAT is decided
 * at the first packet of a flow. These are left out, because the rules do not decide about them, or something else too:
 *
 * - flows with a translated destination, as those of Services have: rules see the destination after that
 * - flows from or to an address of the node, and to multicast and broadcast
 * - flows from elsewhere than `masqueradeFromCIDRs` lists, such as those of Docker, which masquerades them itself
 * - flows that a connection tracking helper expected, or that are in a zone, such as those of Open vSwitch
 * - TCP connections that have ended
 */
export function keptVerdict(flow: Flow, { verdict, isOwn }: FlowRules): Verdict | undefined {
  const { family, original, reply } = flow;
  if (reply.source !== original.destination || flow.isExpected || flow.zone !== 0) return undefined;
  if (ENDED_TCP.includes(flow.tcpState) || original.destination >= FIRST_NOT_UNICAST[family])
    return undefined;
  const kept = reply.destination === original.source ? 'not_masqueraded' : 'masqueraded';
  const source = { family, value: original.source };
  const destination = { family, value: original.destination };
  const wanted = verdict(source, destination);
  if (wanted === undefined || wanted === kept || isOwn(source) || isOwn(destination)) return undefined;
  return kept;
}

const EXAMPLES = 3;

/** Counts stale flows. It keeps none of them, but a few as text. */
export class StaleFlows {
  readonly #counts = new Map<string, StaleCount>();
  readonly #examples = new Map<string, string[]>();

  /** @param kept as `keptVerdict` has found */
  add(flow: Flow, kept: Verdict): void {
    const kind = { family: flow.family, protocol: protocolName(flow), kept };
    const key = keyOf(kind);
    this.#counts.set(key, { ...kind, flows: this.count(kind) + 1 });
    const examples = this.#examples.get(key) ?? [];
    if (examples.length < EXAMPLES) examples.push(`${flowText(flow)}: still ${VERDICT_TEXT[kept]}`);
    this.#examples.set(key, examples);
  }

  count(kind: Omit<StaleCount, 'flows'>): number {
    return this.#counts.get(keyOf(kind))?.flows ?? 0;
  }

  get counts(): readonly StaleCount[] {
    return [...this.#counts.values()];
  }

  get examples(): readonly string[] {
    return [...this.#examples.values()].flat();
  }
}

function keyOf({ family, protocol, kept }: Omit<StaleCount, 'flows'>): string {
  return `${family} ${protocol} ${kept}`;
}

function protocolName({ protocol }: Flow): StaleCount['protocol'] {
  if (protocol === IPPROTO.tcp) return 'tcp';
  return protocol === IPPROTO.udp ? 'udp' : 'other';
}

/** Such as `udp 10.244.1.2:4000 to 203.0.113.9:53`, as the pod sees it. */
function flowText({ family, protocol, original }: Flow): string {
  const source = endText({ family, value: original.source }, original.sourcePort);
  const destination = endText({ family, value: original.destination }, original.destinationPort);
  return `${protocolText(protocol)} ${source} to ${destination}`;
}
