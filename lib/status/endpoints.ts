import { setTimeout as delay } from 'node:timers/promises';
import type { Knowledge } from '../agent/state.ts';
import { DataplaneError } from '../dataplane/error.ts';
import { setPacketCounts } from './counts.ts';
import { liveness, readiness } from './health.ts';
import { LIMITS } from './limits.ts';
import { probeReply } from './probes.ts';
import { METRICS_TYPE, type Metrics } from './registry.ts';
import { plain, type Routes, reply } from './server.ts';
import { type About, agentState, statusLines } from './status-json.ts';

export interface Endpoints extends About {
  readonly agent: Knowledge;
  readonly metrics: Metrics;
  /** The merged config, its hash and its conflicts, as JSON. */
  readonly configJson: () => string;
}

/** The shortest time between two readings of the kernel's counts: each may start a process for each family. */
const FRESH_MS = 15_000;

/** What the agent answers, computed from its state at each request. */
export function routes(endpoints: Endpoints) {
  const { agent, metrics, families, resyncInterval } = endpoints;
  // They begin at zero when rules are written again. A reading that hangs, or fails, gives none.
  const readCounts = atMostEach(FRESH_MS, () => {
    const all = Array.from(agent.state.families, async ([family, { dataplane, policy }]) => {
      return [family, await dataplane.count(policy)] as const;
    });
    return unlessLate(Promise.all(all)).catch((error: unknown) => {
      if (!(error instanceof DataplaneError)) throw error;
      return [];
    });
  });
  return {
    '/metrics': atMostEach(LIMITS.sharedAnswerMs, async () => {
      setPacketCounts(metrics, new Map(await readCounts()));
      metrics.setGauges(agent.state, endpoints);
      return reply(200, METRICS_TYPE, await metrics.text());
    }),
    // An answer is enough: /readyz tells of a sync that hangs.
    '/healthz': ({ query }) =>
      probeReply([{ name: 'loop', isGood: true, reason: 'the event loop answers' }], query.has('verbose')),
    '/readyz': ({ query }) => {
      const checks = readiness(agent.state, families, resyncInterval, performance.now());
      return probeReply(checks, query.has('verbose'));
    },
    // For a liveness probe, if somebody wants one.
    '/livez': ({ query }) =>
      probeReply(liveness(agent.state, resyncInterval, performance.now()), query.has('verbose')),
    '/configz': atMostEach(LIMITS.sharedAnswerMs, () =>
      reply(agent.state.valid === undefined ? 503 : 200, 'application/json', endpoints.configJson()),
    ),
    '/statusz': atMostEach(LIMITS.sharedAnswerMs, () =>
      plain(200, statusLines(agentState(agent.state, endpoints)).join('\n')),
    ),
  } satisfies Routes;
}

/** Makes an answer at most once in each period of so many milliseconds: all requests in one get the same. */
function atMostEach<Answer>(ms: number, make: () => Answer): () => Answer {
  let last: { readonly period: number; readonly answer: Answer } | undefined;
  return () => {
    const period = Math.floor(performance.now() / ms);
    if (last?.period !== period) last = { period, answer: make() };
    return last.answer;
  };
}

const LATE_MS = 2_000;

function unlessLate<Value>(value: Promise<readonly Value[]>): Promise<readonly Value[]> {
  return Promise.race([value, delay(LATE_MS, [], { ref: false })]);
}
