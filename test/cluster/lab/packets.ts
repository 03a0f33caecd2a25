import { isDeepStrictEqual } from 'node:util';
import type { Family } from './cluster.ts';
import { FAILED, type Protocol, type Tally, type Target } from './probe/errands.ts';
import type { Addresses } from './probes.ts';
import type { Lab, LabNode } from './scenario.ts';
import { until } from './wait.ts';

/**
 * Where clients send to: the other node's address, its address in the network of pods, or an ordinary pod there. What is
 * masqueraded to a pod is so by the sender's node or by the pod's node or by both: the source does not tell.
 */
export type Place = 'nodes' | 'gateways' | 'pods';
type Verdict = 'masqueraded' | 'not masqueraded';
export type Verdicts = Readonly<Partial<Record<Place, Verdict>>>;

const PROTOCOLS: readonly Protocol[] = ['tcp', 'udp'];

/** Places that every cluster has. */
const PLACES: readonly Place[] = ['nodes', 'pods'];

/** The way from the client on a node to a place on the other node. */
export interface Route {
  readonly from: LabNode;
  readonly to: LabNode;
  readonly place: Place;
  readonly family: Family;
  readonly target: Target;
}

export function routes(lab: Lab, places = PLACES, protocols = PROTOCOLS): readonly Route[] {
  const [one, two] = lab.nodes;
  const pairs = [
    [one, two],
    [two, one],
  ] as const;
  return pairs.flatMap(([from, to]) =>
    places.flatMap((place) =>
      lab.cluster.families.flatMap((family) =>
        protocols.map((protocol): Route => {
          const address = addressOf(to, place, family);
          return { from, to, place, family, target: { protocol, address } };
        }),
      ),
    ),
  );
}

/** What the source that the server has seen tells of the verdict; the source itself if no verdict leads to it. */
export function verdictOf({ from, to, place, family }: Route, source: string): string {
  if (source === addressIn(from.client.addresses, family)) return 'not masqueraded';
  if (source === addressIn(from.addresses, family)) return 'masqueraded';
  return place === 'pods' && source === to.gateways[family] ? 'masqueraded' : source;
}

/**
 * What happens to new packets of the clients of both nodes, over TCP and UDP, in all families: one verdict for each place,
 * or all that were found, where they differ.
 */
export async function packets(lab: Lab, places = PLACES): Promise<Readonly<Record<string, string>>> {
  const all = routes(lab, places);
  const answers = await Promise.all(
    lab.nodes.map(async ({ client, name }) => {
      const own = all.filter(({ from }) => from.name === name);
      const seen = await client.ask('ask', { targets: own.map(({ target }) => target) });
      return own.map((route, index) => ({ route, verdict: verdictOf(route, seen[index]?.source ?? '') }));
    }),
  );
  const at = (place: Place) => {
    const found = answers.flat().filter(({ route }) => route.place === place);
    return [...new Set(found.map(({ verdict }) => verdict))].toSorted().join(', ');
  };
  return Object.fromEntries(places.map((place) => [place, at(place)]));
}

/** Waits until new packets have these verdicts. */
export async function untilPackets(lab: Lab, wanted: Verdicts): Promise<void> {
  await until(
    `packets with the verdicts ${JSON.stringify(wanted)}`,
    () => packets(lab, placesOf(wanted)),
    (found) => isDeepStrictEqual(found, wanted),
  );
}

export function placesOf(verdicts: Verdicts): readonly Place[] {
  return Object.keys(verdicts) as Place[];
}

/** The CIDRs of single addresses that hold these places on both nodes, and with the pods their clients. */
export function cidrs(lab: Lab, ...places: readonly Place[]): readonly string[] {
  return lab.cluster.families.flatMap((family) => {
    const targets = places.flatMap((place) => lab.nodes.map((node) => addressOf(node, place, family)));
    const clients = places.includes('pods')
      ? lab.nodes.map(({ client }) => addressIn(client.addresses, family))
      : [];
    return [...targets, ...clients].map((address) => `${address}/${family === 'IPv4' ? 32 : 128}`);
  });
}

function addressOf(node: LabNode, place: Place, family: Family): string {
  switch (place) {
    case 'nodes':
      return addressIn(node.addresses, family);
    case 'gateways':
      return addressIn(node.gateways, family);
    case 'pods':
      return addressIn(node.server.addresses, family);
  }
}

/** The text of a config file that leaves packets to these places alone. */
export function configFileText(lab: Lab, ...places: readonly Place[]): string {
  return `nonMasqueradeCIDRs: ${JSON.stringify(cidrs(lab, ...places))}\n`;
}

/** The config files of most scenarios: packets to pods are left alone. */
export function podsInside(lab: Lab) {
  return { 'ip-masq-operator': configFileText(lab, 'pods'), 'ip-masq-cloud': configFileText(lab) };
}

/** What then happens to packets. */
export const PODS_INSIDE = { nodes: 'masqueraded', pods: 'not masqueraded' } as const;
/** What happens to packets where neither pods nor nodes are masqueraded. */
export const ALL_INSIDE = { nodes: 'not masqueraded', pods: 'not masqueraded' } as const;

/** Waits until Services lead to pods: kube-proxy has written its rules. */
export async function untilServices({ cluster, service }: Lab, nodes: readonly LabNode[]): Promise<void> {
  const targets = cluster.families.map(
    (family) => ({ protocol: 'tcp', address: addressIn(service, family) }) as const,
  );
  for (const { name, client } of nodes)
    await until(
      `an answer through a Service on ${name}`,
      () => client.ask('ask', { targets }),
      () => true,
    );
}

/** The agent's flags for such config files where nothing may be found: the other pods of the range are masqueraded. */
export const OTHER_PODS_MEANT = ['--accept-masqueraded=0.0.0.0/0', '--accept-masqueraded=::/0'];

/** Connections of one client that did not arrive as they should. */
export interface Wrongs {
  /** How many were opened. */
  readonly count: number;
  /** How many had another source. */
  readonly wrong: number;
  /** How many got no answer. */
  readonly failed: number;
  /** The longest time in which none was right, in milliseconds: from the first of them to the next that was right. */
  readonly longestMs: number;
  /** Each outcome that is not right, with its count. */
  readonly outcomes: Readonly<Record<string, number>>;
}

export function wrongsOf({ count, runs }: Tally, isRight: (outcome: string) => boolean): Wrongs {
  const outcomes: Record<string, number> = {};
  let longestMs = 0;
  let since: number | undefined;
  for (const run of runs) {
    if (isRight(run.outcome)) {
      longestMs = Math.max(longestMs, run.from - (since ?? run.from));
      since = undefined;
    } else {
      since ??= run.from;
      outcomes[run.outcome] = (outcomes[run.outcome] ?? 0) + run.count;
      longestMs = Math.max(longestMs, run.to - since);
    }
  }
  const total = (some: readonly (readonly [string, number])[]) => some.reduce((sum, [, of]) => sum + of, 0);
  const isFailure = ([outcome]: readonly [string, number]) => outcome.startsWith(FAILED);
  const failed = total(Object.entries(outcomes).filter(isFailure));
  return { count, wrong: total(Object.entries(outcomes)) - failed, failed, longestMs, outcomes };
}

/** @throws {Error} if there is none */
export function addressIn(addresses: Addresses, family: Family): string {
  const address = addresses[family];
  if (address === undefined) throw new Error(`there is no ${family} address`);
  return address;
}
