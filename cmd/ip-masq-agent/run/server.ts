import { hostname } from 'node:os';
import type { Agent } from '../../../lib/agent/loop.ts';
import type { Logger } from '../../../lib/log/log.ts';
import { keptFamilies } from '../../../lib/policy/policy.ts';
import { routes } from '../../../lib/status/endpoints.ts';
import { Metrics } from '../../../lib/status/metrics.ts';
import { PacketCounts } from '../../../lib/status/packet-counts.ts';
import type { Recorder } from '../../../lib/status/recorder.ts';
import { serve } from '../../../lib/status/server.ts';
import type { Status } from '../../../lib/status/status.ts';
import { buildInfo, versionText } from '../build-info.ts';
import type { FlagValues } from '../flags.ts';
import { stopSignal } from '../signals.ts';

/** As many digits of a commit as a person compares. */
const SHORT_HASH = 12;

/** What the server tells about. */
export interface Served {
  readonly flags: FlagValues;
  readonly log: Logger;
  readonly agent: Agent;
  readonly status: Status;
  readonly recorder: Recorder;
}

/**
 * Serves metrics, probes and status pages until the agent stops.
 *
 * @throws {ListenError}
 */
export async function startServer({ flags, log, agent, status, recorder }: Served): Promise<void> {
  const metrics = new Metrics();
  recorder.attach(metrics);
  const { version, commit, node } = buildInfo();
  metrics.set('build_info', { version, commit, nodejs: node, dataplane: status.dataplane?.name ?? '' }, 1);
  const endpoints = {
    status,
    metrics,
    counts: new PacketCounts(),
    families: keptFamilies(flags['enable-ipv6']),
    interval: () => agent.interval,
    version: versionText(SHORT_HASH),
    node: hostname(),
  };
  const address = flags['metrics-bind-address'];
  await serve(address, routes(endpoints), stopSignal, (error) =>
    log.error({ err: error }, 'the metrics server has failed; the rules are kept all the same'),
  );
  log.info(`metrics, probes and status on http://${address}: /metrics /healthz /readyz /configz /statusz`);
}
