import assert from 'node:assert/strict';
import { type Address, parseAddress } from '../../../lib/cidr/address.ts';
import type { FlowSource } from '../../../lib/flows/read.ts';
import type { Flow } from '../../../lib/netlink/conntrack.ts';

/** Addresses with ports, such as `10.0.0.1:80`. */
interface Ends {
  readonly from: string;
  readonly to: string;
  /** The source that it left with, if that is another one. */
  readonly as?: string;
  /** The destination that it was sent to, if that is another one. */
  readonly via?: string;
}

/** A UDP flow of IPv4, unless something else is said. */
export function flowOf({ from, to, as = from, via = to }: Ends, more: Partial<Flow> = {}): Flow {
  const [source, destination, nat, other] = [from, to, as, via].map(endOf);
  assert.ok(source && destination && nat && other);
  const tuple = (one: End, two: End) => ({
    source: one.address.value,
    sourcePort: one.port,
    destination: two.address.value,
    destinationPort: two.port,
  });
  return {
    family: source.address.family,
    protocol: 17,
    original: tuple(source, destination),
    reply: tuple(other, nat),
    id: 1,
    zone: 0,
    isExpected: false,
    tcpState: undefined,
    ...more,
  };
}

interface End {
  readonly address: Address;
  readonly port: number;
}

function endOf(text: string): End {
  const [, bracketed, plain, port] = /^(?:\[(.*)\]|([^:]*)):(\d+)$/.exec(text) ?? [];
  const address = parseAddress(bracketed ?? plain ?? '');
  assert.ok(address, text);
  return { address, port: Number(port) };
}

/** Connection tracking with these flows. */
export function sourceOf(parts: readonly (readonly Flow[])[], entries?: number): FlowSource {
  return {
    flowCount: () => entries ?? parts.flat().length,
    async flows(_, take, afterPart) {
      for (const part of parts) {
        for (const flow of part) take(flow);
        afterPart();
      }
    },
  };
}
