import { setFlagsFromString } from 'node:v8';
import type { Conntrack, Flow } from '../netlink/conntrack.ts';

/**
 * The most flows that are read. A larger table is left alone: to read it would take this process seconds of CPU.
 * It is the default of nf_conntrack_max on a machine with 4 GiB of memory or more.
 */
export const MOST_FLOWS = 262_144;

/** What of conntrack is needed to read flows. */
export type FlowSource = Pick<Conntrack, 'flowCount' | 'flows'>;

/**
 * Reads all flows, part by part.
 *
 * @param onFlow is called with each flow, and must not keep it
 * @param afterPart is called after each part; then other events have their turn
 * @returns whether all were read; false if there are too many
 * @throws {NetlinkError}
 */
export async function readFlows(
  conntrack: FlowSource,
  family: Flow['family'] | undefined,
  onFlow: (flow: Flow) => void,
  afterPart: () => void = () => {},
): Promise<boolean> {
  const count = conntrack.flowCount();
  // The kernel walks all of its table, that of all namespaces, for none.
  if (count === 0 || count > MOST_FLOWS) return count === 0;
  // Otherwise V8 takes flows for long-lived, and a table of 250,000 makes 20 MB of garbage instead of 3.
  setFlagsFromString('--no-allocation-site-pretenuring');
  let read = 0;
  // If there come to be more, the rest is only counted.
  const takeSome = (flow: Flow) => {
    read += 1;
    if (read <= MOST_FLOWS) onFlow(flow);
  };
  await conntrack.flows(family, takeSome, afterPart);
  return read <= MOST_FLOWS;
}
