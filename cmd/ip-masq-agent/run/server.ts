import { setFlagsFromString } from 'node:v8';
import type { Round } from '../../../lib/agent/loop.ts';
import type { State } from '../../../lib/agent/state.ts';
import { mergedValue, problemValue } from '../../../lib/report/json.ts';
import { countRound } from '../../../lib/status/counts.ts';
import { routes } from '../../../lib/status/endpoints.ts';
import { Metrics } from '../../../lib/status/registry.ts';
import { type Routes, serve } from '../../../lib/status/server.ts';
import { hashOf, pendingConfig, vanishedFiles } from '../../../lib/status/status-json.ts';
import { prettyJson } from '../../../lib/text/escape.ts';
import { buildInfo } from '../build-info.ts';
import { keptFamilies } from '../from-flags.ts';
import { stopSignal } from '../signals.ts';
import type { Parts } from './beside.ts';

/**
 * Serves metrics, probes and status until the agent stops.
 *
 * @returns takes each round into the metrics
 * @throws {SystemError} if it cannot listen, and no later attempt can succeed
 */
export async function startServer({ flags, agent, notices }: Parts): Promise<(round: Round) => void> {
  const { log } = notices;
  const metrics = new Metrics();
  const all = routes({
    agent,
    metrics,
    build: buildInfo(),
    families: keptFamilies(flags),
    resyncInterval: flags['resync-interval'],
    configJson: () => configJson(agent.state),
  });
  const listen = async (listener: 'metrics' | 'scrape', what: string, served: Routes) => {
    const flag = `${listener}-bind-address` as const;
    const address = flags[flag];
    if (address === '') return;
    await serve({
      address,
      flag: `--${flag}`,
      routes: served,
      signal: stopSignal,
      onListening: () => log.info(`${what} on http://${address}: ${Object.keys(served).join(' ')}`),
      onFailure: ({ message }) =>
        notices.warn(flag, [`${message}; the agent keeps the rules, and tries again to listen`]),
      onError: (error) =>
        log.error({ err: error }, 'the metrics server has failed; the agent still keeps the rules'),
    });
  };
  await listen('metrics', 'metrics, probes and status', all);
  await listen('scrape', 'metrics', { '/metrics': all['/metrics'] });
  // Percent by which the heap grows until a collection, instead of 300: clients that come and go by the thousand leave
  // more garbage than fits into the manifest's memory limit. Not earlier: V8 refuses all compiled code after it.
  setFlagsFromString('--heap-growing-percent=50');
  return (round) => countRound(metrics, round);
}

/** The body of `/configz`. */
function configJson(state: State): string {
  const config = state.inUse?.config;
  return prettyJson({
    hash: hashOf(state) ?? null,
    merged: config === undefined ? null : mergedValue(config),
    pending: pendingConfig(state),
    vanished: vanishedFiles(state),
    conflicts: (config?.problems ?? []).map(problemValue),
  });
}
