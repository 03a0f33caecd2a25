import { hostname } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import type { Host } from '../../../lib/dataplane/host.ts';
import type { Logger } from '../../../lib/log/log.ts';
import { Notices } from '../../../lib/log/notices.ts';
import { writeTerminationMessage } from '../../../lib/log/termination.ts';
import { conntrackTable } from '../../../lib/node/conntrack-table.ts';
import { mergedValue, problemValue } from '../../../lib/report/json.ts';
import { routes } from '../../../lib/status/endpoints.ts';
import { Metrics } from '../../../lib/status/metrics.ts';
import type { StatusObserver } from '../../../lib/status/observer.ts';
import { PacketCounts } from '../../../lib/status/packet-counts.ts';
import type { Recorder } from '../../../lib/status/recorder.ts';
import { type Routes, serve } from '../../../lib/status/server.ts';
import { vanishedFiles } from '../../../lib/status/state.ts';
import { prettyJson } from '../../../lib/text/escape.ts';
import { versionText } from '../build-info.ts';
import type { FlagValues } from '../flags.ts';
import { keptFamilies } from '../from-flags.ts';
import { stopSignal } from '../signals.ts';

const SHORT_HASH = 12;

export interface Served {
  readonly flags: FlagValues;
  readonly log: Logger;
  readonly status: StatusObserver;
  readonly recorder: Recorder;
  readonly host: Pick<Host, 'readText'>;
  /** Milliseconds between two syncs at the moment. */
  readonly interval: () => number;
}

/**
 * Serves metrics, probes and status pages until the agent stops.
 *
 * @throws {SystemError} if it cannot listen, and no later attempt can succeed
 */
export async function startServer({ flags, log, status, recorder, host, interval }: Served): Promise<void> {
  const metrics = new Metrics();
  recorder.attach(metrics);
  const all = routes({
    status,
    metrics,
    conntrack: () => conntrackTable(host.readText),
    counts: new PacketCounts(),
    families: keptFamilies(flags),
    interval,
    version: versionText(SHORT_HASH),
    node: hostname(),
    configJson: () => configJson(status),
  });
  const listen = async (listener: 'metrics' | 'scrape', what: string, served: Routes) => {
    const flag = `${listener}-bind-address` as const;
    const address = flags[flag];
    if (address === '') return;
    const notices = new Notices(log);
    // Without the probes, kubelet ends the agent, which has exit code 0 then and nothing else to say.
    let isNoted = false;
    const note = (lines: readonly string[]) =>
      void writeTerminationMessage(flags['termination-log'], lines).catch(() => {});
    metrics.add('listen_failures_total', { listener }, 0);
    await serve({
      address,
      flag: `--${flag}`,
      routes: served,
      signal: stopSignal,
      onListening() {
        log.info(`${what} on http://${address}: ${Object.keys(served).join(' ')}`);
        if (isNoted) note([]);
      },
      onFailure({ message }) {
        notices.updateWarnings([`${message}; the agent keeps the rules, and tries again to listen`]);
        metrics.add('listen_failures_total', { listener });
        isNoted = listener === 'metrics';
        if (isNoted) note([message]);
      },
      onError: (error) =>
        log.error({ err: error }, 'the metrics server has failed; the agent still keeps the rules'),
    });
  };
  await listen('metrics', 'metrics, probes and status', all);
  await listen('scrape', 'metrics', { '/metrics': all['/metrics'] });
  // Percent by which the heap grows until a collection, instead of 300: clients that come and go by the thousand leave
  // more garbage than fits into the manifest's memory limit. Not earlier: V8 refuses all compiled code after it.
  setFlagsFromString('--heap-growing-percent=50');
}

/** The body of `/configz`. */
function configJson(status: StatusObserver): string {
  const config = status.loaded?.config;
  return prettyJson({
    hash: status.hash ?? null,
    merged: config === undefined ? null : mergedValue(config),
    vanished: vanishedFiles(status),
    conflicts: (config?.problems ?? []).map(problemValue),
  });
}
