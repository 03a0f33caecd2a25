import { setTimeout as delay } from 'node:timers/promises';
import type { MergedConfig } from '../config/config.ts';
import type { ConntrackTable } from '../node/conntrack-table.ts';
import { readiness } from './health.ts';
import { LIMITS } from './limits.ts';
import { METRICS_TYPE, type Metrics } from './metrics.ts';
import type { StatusObserver } from './observer.ts';
import { probeRoutes } from './probes.ts';
import { type Routes, reply } from './server.ts';
import { type Overview, statusPage } from './status-page.ts';

interface Endpoints extends Overview {
  readonly status: StatusObserver;
  readonly metrics: Metrics;
  /** Reads how full connection tracking is; undefined if it is not loaded. */
  readonly conntrack: () => Promise<ConntrackTable | undefined>;
  /** The merged config, its hash and its conflicts as JSON; undefined if no valid config has been read yet. */
  readonly configJson: (config: MergedConfig | undefined) => string;
}

/** After this time, a request gets the counts of the last reading. */
const COUNT_TIMEOUT_MS = 2_000;

export function routes(endpoints: Endpoints) {
  const { status, metrics, configJson } = endpoints;
  const second = () => Math.floor(performance.now() / LIMITS.sharedAnswerMs);
  return {
    '/metrics': cachedByKey(second, async () => {
      await readCounts(endpoints);
      status.onConntrack(await endpoints.conntrack());
      status.refresh();
      return reply(200, METRICS_TYPE, await metrics.text());
    }),
    ...probeRoutes(() => readiness(status, endpoints.families, endpoints.interval(), performance.now())),
    '/configz': cachedByKey(
      () => status.loaded?.config,
      (config) => reply(config === undefined ? 503 : 200, 'application/json', configJson(config)),
    ),
    '/statusz': cachedByKey(second, async () => {
      await readCounts(endpoints);
      return reply(200, 'text/html; charset=utf-8', statusPage(endpoints));
    }),
  } satisfies Routes;
}

/** Makes an answer once for each key: a request that finds the key unchanged gets the same bytes. */
function cachedByKey<Key, Answer>(key: () => Key, make: (key: Key) => Answer): () => Answer {
  let last: { readonly key: Key; readonly answer: Answer } | undefined;
  return () => {
    const now = key();
    if (last === undefined || last.key !== now) last = { key: now, answer: make(now) };
    return last.answer;
  };
}

/** Reads the counts of the kernel, and adds the growth since the last reading. */
async function readCounts({ status, counts, families }: Endpoints): Promise<void> {
  const { dataplane } = status;
  if (dataplane === undefined) return;
  const reading = Promise.all(
    families.map(async (family) => {
      const policy = status.families.get(family)?.policy;
      if (policy !== undefined) status.onCounts(family, await counts.takeGrowth(dataplane, policy));
    }),
  );
  await Promise.race([reading, delay(COUNT_TIMEOUT_MS, undefined, { ref: false })]);
}
