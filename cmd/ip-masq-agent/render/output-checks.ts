import { type ConfigState, intervalOf } from '../../../lib/agent/state.ts';
import { dataLink } from '../../../lib/config/read.ts';
import type { Notices } from '../../../lib/log/notices.ts';
import { configCheck, type ProbeCheck, recencyCheck } from '../../../lib/status/health.ts';
import { probeRoutes } from '../../../lib/status/probes.ts';
import { serve } from '../../../lib/status/server.ts';
import { stopSignal } from '../signals.ts';

/** What the loop of the sidecar tells its probes. */
export interface OutputState {
  config: ConfigState;
  /** The last rendering that the output file holds. */
  rendered?: {
    /** What `..data` named before the config files were read. */
    readonly version: string | undefined;
    /** In milliseconds of performance.now(). */
    readonly at: number;
  };
}

/** Whether the output file is of the current volume version, with the reasons. */
function outputChecks(
  { config: { invalid }, rendered }: OutputState,
  current: string | undefined,
  intervalMs: number,
  now: number,
): readonly ProbeCheck[] {
  const isCurrent = rendered !== undefined && rendered.version === current;
  const reason = isCurrent
    ? 'the output file is of the current volume version'
    : 'the output file is not of the current volume version yet';
  return [
    configCheck(invalid),
    { name: 'volume-version', isGood: isCurrent, reason },
    { name: 'render', ...recencyCheck('render', rendered?.at, intervalMs, now) },
  ];
}

/**
 * Serves probes until the sidecar stops.
 *
 * @throws {SystemError} if it cannot listen, unless another program has the port
 */
export async function serveProbes(
  address: string,
  configDir: string,
  state: OutputState,
  resyncInterval: number,
  notices: Notices,
): Promise<void> {
  const { log } = notices;
  const interval = () => intervalOf(state.config, resyncInterval);
  const routes = probeRoutes(() => outputChecks(state, dataLink(configDir), interval(), performance.now()));
  await serve({
    address,
    flag: '--health-bind-address',
    routes,
    signal: stopSignal,
    onListening: () => log.info(`probes on http://${address}: ${Object.keys(routes).join(' ')}`),
    onFailure: ({ message }) =>
      notices.warn('probes', [`${message}; the sidecar follows the config files, and tries again to listen`]),
    onError: (error) =>
      log.error({ err: error }, 'the server for probes failed; the sidecar still follows the config files'),
  });
}
