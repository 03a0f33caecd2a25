import type { MergedConfig } from '../config/config.ts';
import { checksText, readiness } from './health.ts';
import type { Metrics } from './metrics.ts';
import type { Reply, Routes } from './server.ts';
import { type Overview, statusPage } from './status-page.ts';

/** The input of the endpoints. */
export interface Endpoints extends Overview {
  readonly metrics: Metrics;
  /** The merged config, its hash and its conflicts as JSON; undefined if no valid config has been read yet. */
  readonly configJson: (config: MergedConfig | undefined) => string;
}

/** After this time, a request gets the counts of the last reading. */
const COUNT_TIMEOUT_MS = 2_000;

/** The paths that the server answers. */
export function routes(endpoints: Endpoints): Routes {
  const { metrics } = endpoints;
  return {
    '/metrics': async ({ accept }) => {
      await readCounts(endpoints);
      const { type, body } = await metrics.text(accept.includes('application/openmetrics-text'));
      return { status: 200, type, body };
    },
    // An answer is enough: a sync that hangs ends the process by itself.
    '/healthz': ({ query }) =>
      health([{ name: 'loop', isGood: true, reason: 'the event loop answers' }], query.has('verbose')),
    '/readyz': ({ query }) => {
      const { status, families, interval } = endpoints;
      return health(readiness(status, families, interval(), performance.now()), query.has('verbose'));
    },
    '/configz': () => configz(endpoints),
    '/statusz': async () => {
      await readCounts(endpoints);
      return { status: 200, type: 'text/html; charset=utf-8', body: statusPage(endpoints) };
    },
  };
}

function health(checks: Parameters<typeof checksText>[0], verbose: boolean): Reply {
  const status = checks.every(({ isGood }) => isGood) ? 200 : 503;
  return { status, type: 'text/plain; charset=utf-8', body: checksText(checks, verbose) };
}

function configz({ status: { loaded }, configJson }: Endpoints): Reply {
  const config = loaded?.config;
  return { status: config === undefined ? 503 : 200, type: 'application/json', body: configJson(config) };
}

/** Reads the counts of the kernel, and adds the growth since the last reading. */
async function readCounts({ status, counts, families }: Endpoints): Promise<void> {
  const { dataplane } = status;
  if (dataplane === undefined) return;
  const reading = Promise.all(
    families.map(async (family) => {
      const policy = status.families.get(family)?.policy;
      if (policy !== undefined) status.onCounts(family, await counts.since(dataplane, policy));
    }),
  );
  let timer: NodeJS.Timeout | undefined;
  const tooLong = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, COUNT_TIMEOUT_MS);
  });
  await Promise.race([reading, tooLong]);
  clearTimeout(timer);
}
