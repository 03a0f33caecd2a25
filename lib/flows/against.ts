import type { Address, Family } from '../cidr/address.ts';
import type { Flow } from '../netlink/conntrack.ts';
import { type Beginning, type FlowCount, TREATMENT_TEXT, type Treatment } from '../policy/flow-counts.ts';
import type { FlowPolicy } from '../policy/flow-policy.ts';
import { endText, protocolText } from './words.ts';

/** LAST_ACK, TIME_WAIT and CLOSE in linux/netfilter/nf_conntrack_tcp.h: nothing more is sent. */
const ENDED_TCP: readonly (number | undefined)[] = [6, 7, 8];

/** IPv4: 224.0.0.0 and above: multicast, reserved, broadcast. IPv6: ff00::/8 (RFC 5771, RFC 1112, RFC 4291). */
const FIRST_NOT_UNICAST: Readonly<Record<Family, bigint>> = { IPv4: 0xe0n << 24n, IPv6: 0xffn << 120n };

/** Whether an address is the node's own. */
type IsOwn = (address: Address) => boolean;

/**
 * How the kernel treats a flow otherwise than the policy asks; undefined if as it asks. NAT is decided at the first packet, so
 * this stays the same as long as policy and addresses of the node do. Left out is what the policy does not decide, or not alone:
 *
 * - flows with a translated destination, as those to Services, node ports and host ports have: rules see the destination
 *   after that, and kube-proxy and portmap masquerade some of them in health
 * - flows that a connection tracking helper expected, or that are in a zone, such as those of Open vSwitch
 * - multicast and broadcast
 */
export function treatmentAgainst(flow: Flow, policy: FlowPolicy, isOwn: IsOwn): Treatment | undefined {
  const { family, original, reply } = flow;
  if (reply.source !== original.destination || flow.isExpected || flow.zone !== 0) return undefined;
  if (original.destination >= FIRST_NOT_UNICAST[family]) return undefined;
  const asked = policy({ family, value: original.source }, { family, value: original.destination });
  if (asked === undefined) return undefined;
  const treatment = reply.destination === original.source ? 'not_masqueraded' : 'masqueraded';
  if (asked.verdict !== treatment) return treatment;
  if (treatment === 'not_masqueraded') return undefined;
  const as = reply.destination;
  const [address] = asked.as?.candidates ?? [];
  // Without such a wish, it is one of the node's.
  const isAsked = address === undefined ? isOwn({ family, value: as }) : address.value === as;
  return isAsked ? undefined : 'other_address';
}

/** What the node says of addresses. */
export interface FlowEnds {
  /** Whether it is of a pod of this node, and not in --accept-masqueraded. */
  readonly isPod: (address: Address) => boolean;
  readonly isOwn: IsOwn;
}

/** Whether a flow counts: it goes on, and goes from a pod to somewhere else than the node. */
export function isCounted({ family, original, tcpState }: Flow, { isPod, isOwn }: FlowEnds): boolean {
  const source = { family, value: original.source };
  if (ENDED_TCP.includes(tcpState) || !isPod(source) || isOwn(source)) return false;
  return !isOwn({ family, value: original.destination });
}

const EXAMPLES = 3;

/** Counts flows against the policy. It keeps none of them, but a few as text. */
export class FlowsAgainst {
  readonly #counts = new Map<string, FlowCount>();
  readonly #examples = new Map<string, string[]>();

  add(flow: Flow, verdict: Treatment, since: Beginning): void {
    const kind = { family: flow.family, verdict, since };
    const key = keyOf(kind);
    this.#counts.set(key, { ...kind, flows: this.count(kind) + 1 });
    const examples = this.#examples.get(key) ?? [];
    if (examples.length < EXAMPLES) examples.push(`${flowText(flow)}: ${treatmentText(flow, verdict)}`);
    this.#examples.set(key, examples);
  }

  count(kind: Omit<FlowCount, 'flows'>): number {
    return this.#counts.get(keyOf(kind))?.flows ?? 0;
  }

  /** @param since only those; all if it is undefined */
  counts(since?: Beginning): readonly FlowCount[] {
    return [...this.#counts.values()].filter((one) => since === undefined || one.since === since);
  }

  /** A few of each kind, as texts. */
  examples(since?: Beginning): readonly string[] {
    const keys = this.counts(since).map(keyOf);
    return keys.flatMap((key) => this.#examples.get(key) ?? []);
  }
}

function keyOf({ family, verdict, since }: Omit<FlowCount, 'flows'>): string {
  return `${family} ${verdict} ${since}`;
}

/** Such as `udp 10.244.1.2:4000 to 203.0.113.9:53`, as the pod sees it. */
export function flowText({ family, protocol, original }: Flow): string {
  const source = endText({ family, value: original.source }, original.sourcePort);
  const destination = endText({ family, value: original.destination }, original.destinationPort);
  return `${protocolText(protocol)} ${source} to ${destination}`;
}

/** With which address packets of the flow leave. */
function treatmentText({ family, reply }: Flow, verdict: Treatment): string {
  if (verdict === 'not_masqueraded') return TREATMENT_TEXT[verdict];
  return `masqueraded as ${endText({ family, value: reply.destination }, undefined)}`;
}
