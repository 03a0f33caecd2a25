import { setTimeout as delay } from 'node:timers/promises';
import type { Knowledge } from '../agent/state.ts';
import { setPacketCounts } from './counts.ts';
import { setFacts } from './facts.ts';
import { liveness, readiness } from './health.ts';
import { LIMITS } from './limits.ts';
import { METRICS_TYPE, type Metrics } from './metrics.ts';
import { PacketCounts } from './packet-counts.ts';
import { probeReply } from './probes.ts';
import { type Routes, reply } from './server.ts';
import type { About } from './status-json.ts';
import { statusText } from './status-text.ts';

export interface Endpoints extends About {
  readonly agent: Knowledge;
  readonly metrics: Metrics;
  /** The merged config, its hash and its conflicts, as JSON. */
  readonly configJson: () => string;
}

/** After this time, a request gets the counts of the last reading. */
const COUNT_TIMEOUT_MS = 2_000;

/** What the agent answers, computed from its state at each request. */
export function routes(endpoints: Endpoints) {
  const { agent, metrics, families, resyncInterval } = endpoints;
  const counts = new PacketCounts();
  const readCounts = async (): Promise<void> => {
    const all = Array.from(agent.state.families.values(), ({ dataplane, policy }) =>
      counts.read(dataplane, policy),
    );
    await Promise.race([Promise.all(all), delay(COUNT_TIMEOUT_MS, undefined, { ref: false })]);
  };
  return {
    '/metrics': eachSecond(async () => {
      await readCounts();
      setPacketCounts(metrics, counts.byFamily);
      setFacts(metrics, agent.state, endpoints);
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
    '/configz': eachSecond(() =>
      reply(agent.state.valid === undefined ? 503 : 200, 'application/json', endpoints.configJson()),
    ),
    '/statusz': eachSecond(() => reply(200, 'text/plain; charset=utf-8', statusText(agent.state, endpoints))),
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
