import { type Route, routes, sourceFor, type Verdicts, type Wrongs, wrongsOf } from './packets.ts';
import type { Lab } from './scenario.ts';

/** Connections that the clients of both nodes open to every place on the other node, so many a second. */
export interface LabTraffic extends AsyncDisposable {
  /** Ends it, and returns what was wrong on each route. */
  end(wanted: Verdicts): Promise<readonly (Wrongs & { readonly route: Route })[]>;
}

export async function startTraffic(lab: Lab, perSecond: number): Promise<LabTraffic> {
  const all = routes(lab, ['tcp']);
  const of = (node: string) => all.filter(({ from }) => from.name === node);
  const stop = (name: string) => {
    const node = lab.nodes.find((candidate) => candidate.name === name);
    return node?.client.ask('tallies', { stop: true }) ?? [];
  };
  for (const { name, client } of lab.nodes)
    await client.ask('traffic', { targets: of(name).map(({ target }) => target), perSecond });
  return {
    end: async (wanted) => {
      const found = lab.nodes.map(async ({ name }) => {
        const tallies = await stop(name);
        return of(name).map((route, index) => {
          const tally = tallies[index] ?? { target: route.target, count: 0, runs: [] };
          return { route, ...wrongsOf(tally, sourceFor(route, wanted[route.place])) };
        });
      });
      return (await Promise.all(found)).flat();
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all(lab.nodes.map(({ name }) => stop(name)));
    },
  };
}

/** Flows over TCP and UDP that stay open on every route. */
export interface LabFlows extends AsyncDisposable {
  /** Waits for one more exchange of each. Returns what differs from the sources that they began with. */
  changes(): Promise<readonly string[]>;
}

/** @param verdicts what the flows are to begin with */
export async function openFlows(lab: Lab, verdicts: Verdicts): Promise<LabFlows> {
  const flows = routes(lab).map((route) => {
    const name = `${route.place} ${route.family} ${route.target.protocol} ${crypto.randomUUID()}`;
    return { route, name, source: sourceFor(route, verdicts[route.place]) };
  });
  const changes = async () => {
    const found = flows.map(async ({ route: { from, target }, name, source }) => {
      const { sources } = await from.client.ask('flow', { name, target });
      return sources.every((seen) => seen === source)
        ? []
        : [
            `${from.name} to ${target.address} (${target.protocol}): ${sources.join(', ')} instead of ${source}`,
          ];
    });
    return (await Promise.all(found)).flat();
  };
  const wrong = await changes();
  if (wrong.length > 0) throw new Error(`flows began wrong: ${wrong.join('; ')}`);
  return {
    changes,
    [Symbol.asyncDispose]: async () => {
      await Promise.all(flows.map(({ route, name }) => route.from.client.ask('closeFlow', { name })));
    },
  };
}
