import assert from 'node:assert/strict';
import type { ConfigFile } from '../lab/agent.ts';
import { configFileText, type Place, untilPackets, type Verdicts } from '../lab/packets.ts';
import { type Lab, scenario } from '../lab/scenario.ts';
import { openFlows } from '../lab/traffic.ts';

const SWAPS = 20;
const ALWAYS: Readonly<Record<ConfigFile, readonly Place[]>> = {
  'ip-masq-operator': ['pods'],
  'ip-masq-cloud': [],
};

/** Kubelet alone decides when these reach the volume; after the others its pods are nudged, to save time. */
const LEFT_TO_KUBELET = 2;

/** Each changes the verdict for a place of its own. Packets to pods are inside all the time, the operator says. */
const OWNERS: readonly { readonly configFile: ConfigFile; readonly place: Place }[] = [
  { configFile: 'ip-masq-operator', place: 'nodes' },
  { configFile: 'ip-masq-cloud', place: 'gateways' },
];

/** One change of a ConfigMap on one node, in milliseconds. */
interface Reaction {
  /** From the change in the API server until the files on the node. */
  readonly kubelet: number;
  /** From the files until the kernel. */
  readonly agent: number;
}

scenario('20 changes of two ConfigMaps reach packets on every node, and no open flow', async (lab) => {
  const { agent } = lab;
  // Only an event of the file system can lead to a sync.
  const args = ['--resync-interval=24h'];
  const configFiles = {
    'ip-masq-operator': configFileText(lab, 'pods'),
    'ip-masq-cloud': configFileText(lab, 'gateways'),
  };
  await agent.deploy({ args, configFiles });
  let verdicts: Verdicts = { nodes: 'masqueraded', gateways: 'not masqueraded', pods: 'not masqueraded' };
  await untilPackets(lab, verdicts);

  const changes: number[] = [];
  for (let swap = 0; swap < SWAPS; swap += 1) {
    const { configFile, place } = OWNERS[swap % OWNERS.length] ?? assert.fail('there are owners');
    await using flows = await openFlows(lab, verdicts);
    const wasInside = verdicts[place] === 'not masqueraded';
    verdicts = { ...verdicts, [place]: wasInside ? 'masqueraded' : 'not masqueraded' };
    changes.push(Date.now());
    const places: readonly Place[] = wasInside ? ALWAYS[configFile] : [...ALWAYS[configFile], place];
    const toVolume = swap >= LEFT_TO_KUBELET ? 'nudged' : 'by kubelet';
    await agent.write(configFile, configFileText(lab, ...places), toVolume);
    await untilPackets(lab, verdicts);
    assert.deepEqual(await flows.changes(), [], `flows that were open before change ${swap + 1}`);
  }

  for (const { name } of lab.nodes) {
    const reactions = await reactionsOn(lab, name, changes);
    const show = (of: (reaction: Reaction) => number, some: readonly Reaction[]) => spread(some.map(of));
    const left = reactions.slice(0, LEFT_TO_KUBELET);
    lab.measured(
      `ConfigMap to files on ${name}, kubelet alone`,
      show(({ kubelet }) => kubelet, left),
    );
    const nudged = reactions.slice(LEFT_TO_KUBELET);
    lab.measured(
      `ConfigMap to files on ${name}, pods nudged`,
      show(({ kubelet }) => kubelet, nudged),
    );
    lab.measured(
      `files to kernel on ${name}`,
      show(({ agent }) => agent, reactions),
    );
  }
});

/** The agent logs each change, with the time that it took. The clocks are compared: on another machine they may differ. */
async function reactionsOn(
  { agent, cluster }: Lab,
  node: string,
  changes: readonly number[],
): Promise<readonly Reaction[]> {
  const lines = (await agent.log(node)).split('\n').filter((line) => line.includes('"reason":"change"'));
  const synced = lines
    .map((line): { readonly time: string; readonly family: string; readonly took_ms: number } =>
      JSON.parse(line),
    )
    .filter(({ family }) => family === cluster.families[0])
    .map(({ time, took_ms }) => ({ at: Date.parse(time), took: took_ms }));
  assert.equal(synced.length, changes.length, 'each change leads to one sync');
  return synced.map(({ at, took }, index) => ({ kubelet: at - took - (changes[index] ?? 0), agent: took }));
}

function spread(values: readonly number[]): string {
  const sorted = values.toSorted((one, other) => one - other);
  const [least, median, most] = [0, Math.floor((sorted.length - 1) / 2), sorted.length - 1].map(
    (at) => sorted[at] ?? 0,
  );
  return `least ${least?.toFixed(0)}, median ${median?.toFixed(0)}, most ${most?.toFixed(0)} ms`;
}
