import { setTimeout as delay } from 'node:timers/promises';
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
  /** The merged config, its hash and its conflicts, as JSON. */
  readonly configJson: () => string;
}

/** After this time, a request gets the counts of the last reading. */
const COUNT_TIMEOUT_MS = 2_000;

export function routes(endpoints: Endpoints) {
  const { status, metrics } = endpoints;
  return {
    '/metrics': eachSecond(async () => {
      await readCounts(endpoints);
      status.onConntrack(await endpoints.conntrack());
      status.refresh();
      return reply(200, METRICS_TYPE, await metrics.text());
    }),
    ...probeRoutes(() => readiness(status, endpoints.families, endpoints.interval(), performance.now())),
    '/configz': eachSecond(() =>
      reply(status.loaded === undefined ? 503 : 200, 'application/json', endpoints.configJson()),
    ),
    '/statusz': eachSecond(async () => {
      await readCounts(endpoints);
      return reply(200, 'text/html; charset=utf-8', statusPage(endpoints));
    }),
  } satisfies Routes;
}

/** Makes an answer at most once for each second: a request in the same one gets the same bytes. */
function eachSecond<Answer>(make: () => Answer): () => Answer {
  let last: { readonly second: number; readonly answer: Answer } | undefined;
  return () => {
    const second = Math.floor(performance.now() / LIMITS.sharedAnswerMs);
    if (last?.second !== second) last = { second, answer: make() };
    return last.answer;
  };
}

/** Reads the counts of the kernel. */
async function readCounts({ status, counts, families }: Endpoints): Promise<void> {
  const { dataplane } = status;
  if (dataplane === undefined) return;
  const reading = Promise.all(
    families.map(async (family) => {
      const policy = status.families.get(family)?.policy;
      if (policy !== undefined) await counts.read(dataplane, policy);
    }),
  );
  await Promise.race([reading, delay(COUNT_TIMEOUT_MS, undefined, { ref: false })]);
  status.onCounts(counts.byFamily);
}
