import assert from 'node:assert/strict';
import {
  PODS_INSIDE,
  placesOf,
  type Route,
  routes,
  type Verdicts,
  verdictOf,
  type Wrongs,
  wrongsOf,
} from './packets.ts';
import type { Lab } from './scenario.ts';

/** Connections that the clients of both nodes open to places on the other node, so many a second. */
export interface LabTraffic extends AsyncDisposable {
  /** Ends it. Takes the verdict for each place, and returns what was wrong on each route. */
  end(wanted: Verdicts): Promise<readonly (Wrongs & { readonly route: Route })[]>;
}

export async function startTraffic(lab: Lab, perSecond: number): Promise<LabTraffic> {
  const all = routes(lab, undefined, ['tcp']);
  const of = (node: string) => all.filter(({ from }) => from.name === node);
  const stop = (name: string) => {
    const node = lab.nodes.find((candidate) => candidate.name === name);
    return node?.client.ask('tallies', { stop: true }) ?? [];
  };
  const name = crypto.randomUUID();
  for (const node of lab.nodes) {
    const targets = of(node.name).map(({ target }) => target);
    await node.client.ask('traffic', { name, targets, perSecond });
  }
  return {
    end: async (wanted) => {
      const found = lab.nodes.map(async ({ name }) => {
        const tallies = await stop(name);
        return of(name).map((route, index) => {
          const tally = tallies[index] ?? { target: route.target, count: 0, runs: [] };
          const isRight = (outcome: string) => verdictOf(route, outcome) === wanted[route.place];
          return { route, ...wrongsOf(tally, isRight) };
        });
      });
      return (await Promise.all(found)).flat();
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all(lab.nodes.map(({ name }) => stop(name)));
    },
  };
}

/** So many connections a second on each route. */
export const PER_SECOND = 50;

/**
 * Opens flows and connections all the time while something happens to agents whose config files are `podsInside`: none goes
 * wrong.
 */
export async function withoutWrongs(
  lab: Lab,
  what: string,
  happen: (flows: LabFlows) => Promise<void>,
): Promise<void> {
  await using flows = await openFlows(lab, PODS_INSIDE);
  await using traffic = await startTraffic(lab, PER_SECOND);
  await happen(flows);
  assert.deepEqual(await flows.changes(), []);
  const found = await traffic.end(PODS_INSIDE);
  for (const { route, count, wrong, failed, outcomes } of found) {
    const way = `from ${route.from.name} to ${route.target.address}`;
    assert.ok(count > 0, `no connection ${way}`);
    assert.equal(wrong + failed, 0, `${way}: ${JSON.stringify(outcomes)}`);
  }
  const total = found.reduce((sum, { count }) => sum + count, 0);
  lab.measured(`connections during ${what}`, `${total}, 0 with the wrong source`);
}

/** Flows over TCP and UDP that stay open on every route. */
export interface LabFlows extends AsyncDisposable {
  /** Waits for one more exchange of each. Returns those that have not kept the one source that they began with. */
  changes(): Promise<readonly string[]>;
}

/** A new flow can have the ports of one that ended a moment ago: then conntrack gives it the verdict of that one. */
const ATTEMPTS = 5;

/** @param verdicts what the flows must begin with */
export async function openFlows(lab: Lab, verdicts: Verdicts): Promise<LabFlows> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await openOnce(lab, verdicts);
    } catch (error) {
      if (attempt === ATTEMPTS) throw error;
    }
  }
}

async function openOnce(lab: Lab, verdicts: Verdicts): Promise<LabFlows> {
  const flows = routes(lab, placesOf(verdicts)).map((route) => ({ route, name: crypto.randomUUID() }));
  const look = async (isRight: (route: Route, sources: readonly string[]) => boolean) => {
    const found = flows.map(async ({ route, name }) => {
      const { from, target } = route;
      const { sources } = await from.client.ask('flow', { name, target });
      const what = `${from.name} to ${target.address} over ${target.protocol}: ${sources.join(', ')}`;
      return isRight(route, sources) ? [] : [what];
    });
    return (await Promise.all(found)).flat();
  };
  const wrong = await look((route, sources) =>
    sources.every((source) => verdictOf(route, source) === verdicts[route.place]),
  );
  if (wrong.length > 0) throw new Error(`flows began wrong: ${wrong.join('; ')}`);
  return {
    changes: () => look((_, sources) => sources.length === 1),
    [Symbol.asyncDispose]: async () => {
      await Promise.all(flows.map(({ route, name }) => route.from.client.ask('closeFlow', { name })));
    },
  };
}
