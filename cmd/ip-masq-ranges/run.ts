import { setTimeout as delay } from 'node:timers/promises';
import { PRIVATE_RANGES } from '../../lib/cidr/reserved.ts';
import { Notices } from '../../lib/log/notices.ts';
import { Api } from '../../lib/ranges/api.ts';
import type { Claim } from '../../lib/ranges/claims.ts';
import type { Options } from '../../lib/ranges/decide.ts';
import { metricsText } from '../../lib/ranges/metrics.ts';
import type { Objects } from '../../lib/ranges/plan.ts';
import { Publisher } from '../../lib/ranges/publisher.ts';
import { sourcesOf, TELLERS } from '../../lib/ranges/sources.ts';
import { probeReply } from '../../lib/status/probes.ts';
import { type Routes, reply, serve } from '../../lib/status/server.ts';
import { buildInfo } from '../ip-masq-agent/build-info.ts';
import { logOf } from '../ip-masq-agent/daemon.ts';
import { EXIT } from '../ip-masq-agent/exit.ts';
import { configOptions } from '../ip-masq-agent/from-flags.ts';
import { stopSignal } from '../ip-masq-agent/signals.ts';
import { dryRun } from './dry-run.ts';
import { exitCode, type RangesFlags } from './flags.ts';

/** The pause between two rounds: Nodes that come by the thousand are a few writes. */
const PACE_MS = 5_000;
/** How long after a signal a request may still end. */
const STOP_MS = 1_000;

const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

type Sources = ReturnType<typeof sourcesOf>;

/** Returns the exit code. */
export async function run(flags: RangesFlags): Promise<number> {
  const { within, grace, 'most-removed': mostRemoved } = flags;
  const options = { within, grace, mostRemoved, config: configOptions(flags) };
  const api = new Api();
  const tellers = flags.read.map((name) => TELLERS[name]);
  const sources = sourcesOf(api, tellers, flags.namespace, flags['config-maps']);
  // No request that hangs holds up the end.
  const end = () => process.exit(flags.once || flags['dry-run'] ? EXIT.system : EXIT.ok);
  stopSignal.addEventListener('abort', () => setTimeout(end, STOP_MS).unref());
  if (!flags['dry-run']) return publish(api, sources, options, flags);
  await sources.list();
  return dryRun(objectsOf(sources, flags), options, flags);
}

/** What the API server and the flags tell. */
function objectsOf(sources: Sources, flags: RangesFlags): Objects {
  const objects = sources.objects();
  const given = (kind: Claim['kind'], by: string, prefixes: readonly { readonly text: string }[]) =>
    prefixes.map(({ text }): Claim => ({ text, kind, by }));
  const first = PRIVATE_RANGES.map(({ prefix }) => prefix);
  const claims = [
    ...given('static', '--static-ranges', flags['static-ranges']),
    ...given('first', '--first=rfc1918', flags.first === 'rfc1918' ? first : []),
    ...objects.claims.filter(({ kind }) => kind !== 'address' || flags['node-addresses']),
  ];
  return { ...objects, claims };
}

/** Writes the list, once or until it is stopped. */
async function publish(api: Api, sources: Sources, options: Options, flags: RangesFlags): Promise<number> {
  const log = logOf(flags);
  const { version, commit } = buildInfo();
  log.info({ pid: process.pid }, `starting ip-masq-ranges ${version} (commit ${commit})`);
  const publisher = new Publisher(api, flags.namespace, new Notices(log));
  const address = flags['metrics-bind-address'];
  const routes = routesOf(publisher, version);
  if (address !== '' && !flags.once)
    await serve({
      ...{ address, flag: '--metrics-bind-address', signal: stopSignal, routes },
      onListening: () => log.info(`metrics and probes on http://${address}: /metrics /healthz /readyz`),
      onFailure: ({ message }) => log.warn(message),
      onError: (error) => log.error({ err: error }, 'the metrics server has failed'),
    });
  await sources.list();
  await publisher.round(objectsOf(sources, flags), options);
  if (flags.once) return exitCode(publisher.state.refusal);
  void sources.follow();
  while (!stopSignal.aborted) {
    await delay(PACE_MS, undefined, { signal: stopSignal }).catch(() => {});
    await publisher.round(objectsOf(sources, flags), options);
  }
  return EXIT.ok;
}

function routesOf(publisher: Publisher, version: string): Routes {
  const loop = { name: 'loop', isGood: true, reason: 'the event loop answers' };
  return {
    '/metrics': () => reply(200, METRICS_TYPE, metricsText(publisher.state, version)),
    '/healthz': ({ query }) => probeReply([loop], query.has('verbose')),
    '/readyz': ({ query }) => {
      const { refusal } = publisher.state;
      const reason = refusal?.message ?? 'the ConfigMap holds it';
      return probeReply([{ name: 'list', isGood: refusal === undefined, reason }], query.has('verbose'));
    },
  };
}
