import { mergedValue, problemValue } from '../lint/json.ts';
import type { Family } from '../policy/policy.ts';
import { prettyJson } from '../text/escape.ts';
import { configHash } from './config-hash.ts';
import { checksText, readiness } from './health.ts';
import type { Metrics } from './metrics.ts';
import type { PacketCounts } from './packet-counts.ts';
import type { Answer, Routes } from './server.ts';
import type { Status } from './status.ts';
import { statusPage } from './status-page.ts';

/** What the endpoints tell about. */
export interface Endpoints {
  readonly status: Status;
  readonly metrics: Metrics;
  readonly counts: PacketCounts;
  /** The families that are kept. */
  readonly families: readonly Family[];
  /** Milliseconds between two syncs at the moment. */
  readonly interval: () => number;
  /** What runs, in one line. */
  readonly version: string;
  /** The name of the node. */
  readonly node: string;
}

/** Who waits longer for the kernel's counts gets the older ones. */
const COUNT_TIMEOUT_MS = 2_000;

/** Every path that the server answers. */
export function routes(endpoints: Endpoints): Routes {
  const { metrics } = endpoints;
  return {
    '/metrics': async ({ accept }) => {
      await readCounts(endpoints);
      const { type, body } = await metrics.text(accept.includes('application/openmetrics-text'));
      return { status: 200, type, body };
    },
    // Whoever answers is alive: a sync that hangs ends the process by itself.
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

function health(checks: Parameters<typeof checksText>[0], verbose: boolean): Answer {
  const status = checks.every(({ isGood }) => isGood) ? 200 : 503;
  return { status, type: 'text/plain; charset=utf-8', body: checksText(checks, verbose) };
}

function configz({ status: { loaded } }: Endpoints): Answer {
  const config = loaded?.config;
  const body = prettyJson({
    hash: config === undefined ? null : configHash(config),
    merged: config === undefined ? null : mergedValue(config),
    conflicts: (config?.conflicts ?? []).map(problemValue),
  });
  return { status: config === undefined ? 503 : 200, type: 'application/json', body };
}

/** Adds what has been counted since the last time. */
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
