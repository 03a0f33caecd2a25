import assert from 'node:assert/strict';
import { agentOn } from '../lab/agent-on-node.ts';
import { localNode } from '../lab/local-node.ts';
import { OTHER_PODS_MEANT, PODS_INSIDE, podsInside, untilPackets } from '../lab/packets.ts';
import { type Lab, type LabNode, scenario } from '../lab/scenario.ts';
import { PER_SECOND, startTraffic } from '../lab/traffic.ts';
import { until } from '../lab/wait.ts';

/** From pods of the node. */
const CONNECTIONS = 1_000;

const NODES = [
  { what: 'without a state', components: ['no-state'] },
  { what: 'with a state', components: [] },
] as const;

for (const { what, components } of NODES)
  scenario(`a node reboots while the config is invalid, ${what}`, async (lab, t) => {
    if (lab.cluster.localNodes.length === 0) return t.skip('it disturbs nodes, which needs a local cluster');
    const { agent } = lab;
    const [node] = lab.nodes;
    await agent.deploy({ args: OTHER_PODS_MEANT, components, configFiles: podsInside(lab) });
    await untilPackets(lab, PODS_INSIDE);
    await agent.write('ip-masq-cloud', 'nonMasqueradeCIDRs: [10.0.0.1/8]\n');
    await agent.podsAre('ended by the mistake', ({ container }) => {
      return container?.lastState.terminated?.exitCode === 3;
    });
    await reboot(lab, node);
    const before = await agentOn(lab, node);
    const early = await countWrongs(lab, node, async () => {
      await until(
        'the agent to have run',
        () => agentOn(lab, node),
        ({ container }) => (container?.restartCount ?? 0) > (before.container?.restartCount ?? 0),
      );
    });
    lab.measured(`${what}, until the agent has run`, `${early.wrong} of ${early.count} connections wrong`);
    const late = await countWrongs(lab, node, async () => {
      await until(
        `${CONNECTIONS} connections`,
        () => node.client.ask('tallies', { stop: false }),
        (tallies) => tallies.reduce((sum, { count }) => sum + count, 0) > CONNECTIONS,
      );
    });
    lab.measured(`${what}, then`, `${late.wrong} of ${late.count} connections wrong`);
    assert.ok(late.count >= CONNECTIONS);
    if (components.length > 0) assert.ok(late.wrong > 0, 'without a state the node has no rules');
    else assert.equal(late.wrong, 0);
  });

/** The kernel, the control plane and the networks of pods live on. */
async function reboot({ cluster }: Lab, node: LabNode): Promise<void> {
  const local = localNode(cluster, node);
  await using _ = await local.withhold('containerd');
  await local.kill('kubelet', 'kube-proxy');
  await local.killContainers();
  await node.must('nft', 'flush', 'ruleset');
}

/** The connections of pods of the node, from when they run. */
async function countWrongs(lab: Lab, node: LabNode, during: () => Promise<void>) {
  await using traffic = await startTraffic(lab, PER_SECOND);
  await during();
  const found = (await traffic.end(PODS_INSIDE)).filter(({ route }) => route.from.name === node.name);
  return {
    count: found.reduce((sum, { count }) => sum + count, 0),
    wrong: found.reduce((sum, { wrong }) => sum + wrong, 0),
  };
}
