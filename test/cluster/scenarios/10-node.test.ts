import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { DATAPLANES, doctor, type Kustomization } from '../lab/agent.ts';
import { choiceOn, containerOn, readyOn, replaceAgent, stateOn } from '../lab/agent-on-node.ts';
import { killedAmidSwap, manyKeys, VOLUME_OF_MANY } from '../lab/cut-off-swap.ts';
import { localNode, type Program } from '../lab/local-node.ts';
import { settledRules } from '../lab/nodes.ts';
import type { Node } from '../lab/objects.ts';
import {
  addressIn,
  configFileText,
  OTHER_PODS_MEANT,
  packets,
  untilPackets,
  verdictOf,
  type Wrongs,
} from '../lab/packets.ts';
import { type Lab, type LabNode, scenario } from '../lab/scenario.ts';
import { type LabTraffic, startTraffic } from '../lab/traffic.ts';
import { until } from '../lab/wait.ts';
import { hasWitness, startWitness } from '../lab/witness.ts';

const PER_SECOND = 50;
const MOST_SWAPS = 10;
const RESTARTS = 20;
const VERDICTS = { nodes: 'masqueraded', pods: 'not masqueraded' } as const;
/** Only an event can lead to a sync. */
const ARGS = ['--resync-interval=24h', ...OTHER_PODS_MEANT];

onNodes('kubelet and containerd are restarted, and no packet goes wrong', async (lab) => {
  const [node] = lab.nodes;
  await deploy(lab);
  for (const program of ['kubelet', 'containerd'] as const) {
    const before = await stateOn(lab, node);
    await withoutWrongs(lab, `${program} restarted`, () => restart(lab, node, program));
    assert.deepEqual(await stateOn(lab, node), before, `the agent after a restart of ${program}`);
  }
});

onNodes('kubelet is killed amid a swap, and its next run brings the change', async (lab) => {
  const [node] = lab.nodes;
  await lab.kubectl.apply(manyKeys());
  await deploy(lab, { patches: [VOLUME_OF_MANY] });
  const before = await containerOn(lab, node);
  await using traffic = await startTraffic(lab, PER_SECOND);
  let isAmid = false;
  for (let swap = 1; !isAmid; swap += 1) {
    assert.ok(swap <= MOST_SWAPS, 'every kill came when `..data` was moved already');
    const isInside = swap % 2 === 1;
    const text = isInside ? configFileText(lab, 'pods', 'nodes') : configFileText(lab, 'pods');
    const begun = performance.now();
    isAmid = await killedAmidSwap(lab, node, text);
    await untilPackets(lab, { ...VERDICTS, nodes: isInside ? 'not masqueraded' : 'masqueraded' });
    const when = isAmid ? 'amid' : 'after';
    lab.measured(`kubelet killed ${when} swap ${swap}: the change in packets`, `after ${seconds(begun)}`);
  }
  assert.equal(await containerOn(lab, node), before);
  for (const { route, count, wrong, failed, outcomes } of await traffic.end(VERDICTS)) {
    assert.ok(count > PER_SECOND, `only ${count} connections`);
    assert.equal(failed, 0, JSON.stringify(outcomes));
    if (route.place === 'pods') assert.equal(wrong, 0, JSON.stringify(outcomes));
    // To nodes, either verdict is right at some time.
    const verdicts = Object.keys(outcomes).map((outcome) => verdictOf(route, outcome));
    assert.ok(
      verdicts.every((verdict) => verdict === 'not masqueraded'),
      JSON.stringify(outcomes),
    );
  }
});

onNodes('a node loses all containers and rules, as when it reboots, and gets its rules back', async (lab) => {
  for (const { backend, components, args } of DATAPLANES) {
    await deploy(lab, { components, args });
    await reboot(lab, backend);
  }
});

onNodes('kube-proxy first: the agent takes its dataplane, and keeps it', async (lab) => {
  await deploy(lab);
  await keepsChoice(lab, { dataplane: lab.cluster.proxyMode, by: 'kube-proxy' });
  for (const { name } of lab.nodes) {
    const { code, stdout, stderr } = await lab.agent.exec(name, 'ip-masq-agent', 'doctor');
    assert.equal(code, 0, stdout + stderr);
  }
});

onNodes('the agent first: it takes iptables, and keeps it when kube-proxy comes', async (lab) => {
  const { agent, cluster, kubectl, nodes } = lab;
  await deploy(lab);
  await kubectl.must('delete', 'daemonset/ip-masq-agent', '--cascade=foreground');
  {
    await using proxies = new AsyncDisposableStack();
    for (const node of nodes) {
      proxies.use(await localNode(cluster, node).withhold('kube-proxy'));
      await node.must('nft', 'flush', 'ruleset');
    }
    await deploy(lab);
    await withoutWrongs(lab, 'kube-proxy comes', async () => {
      await proxies.disposeAsync();
      await untilServices(lab, nodes);
    });
  }
  await keepsChoice(lab, { dataplane: 'iptables', by: 'trial' });
  for (const { name } of nodes) {
    const { code, stdout, stderr } = await agent.exec(name, 'ip-masq-agent', 'doctor');
    if (cluster.proxyMode === 'iptables') assert.equal(code, 0, stdout + stderr);
    else assert.match(stdout, /the rules of kube-proxy and of the agent have one priority/);
  }
});

onNodes('a node with taints keeps its agent, and gets a new one', async (lab) => {
  await deploy(lab);
  for (const key of ['node.kubernetes.io/not-ready', 'node.kubernetes.io/disk-pressure'])
    await withoutWrongs(lab, `the taint ${key}`, () => tainted(lab, key));
});

onNodes('a drained node keeps its agent, and gets a new one', async (lab) => {
  const { kubectl, nodes } = lab;
  const [node] = nodes;
  await deploy(lab);
  await using stack = new AsyncDisposableStack();
  stack.defer(async () => void (await kubectl.must('uncordon', node.name)));
  await withoutWrongs(lab, 'drained', async () => {
    const before = await stateOn(lab, node);
    await startWitness(lab, node);
    await kubectl.must('drain', node.name, '--ignore-daemonsets', '--force', '--timeout=180s');
    assert.equal(await hasWitness(lab), false);
    assert.deepEqual(await stateOn(lab, node), before);
    await replaceAgent(lab, node);
    assert.equal((await nodeObject(lab, node)).spec.unschedulable, true);
  });
});

/** Restarts, taints and drains disturb others on the nodes, so the cluster must be one of the tests' own. */
function onNodes(title: string, body: (lab: Lab) => Promise<void>): void {
  scenario(title, async (lab, t) => {
    if (lab.cluster.localNodes.length === 0) return t.skip('it disturbs nodes, which needs a local cluster');
    await body(lab);
  });
}

async function deploy(lab: Lab, { args = [], ...kustomization }: Kustomization = {}): Promise<void> {
  const configFiles = {
    'ip-masq-operator': configFileText(lab, 'pods'),
    'ip-masq-cloud': configFileText(lab),
  };
  await lab.agent.deploy({ args: [...ARGS, ...args], configFiles, ...kustomization });
  await untilPackets(lab, VERDICTS);
}

/** Connections all the time while something happens to a node: all are right. */
async function withoutWrongs(lab: Lab, what: string, happen: () => Promise<void>): Promise<void> {
  await using traffic = await startTraffic(lab, PER_SECOND);
  const begun = performance.now();
  await happen();
  lab.measured(what, `${seconds(begun)} until all is as before`);
  assert.deepEqual(await packets(lab), VERDICTS);
  await endTraffic(lab, what, traffic, ({ wrong, failed }) => wrong + failed === 0);
}

/** Prints for how long connections went wrong. */
async function endTraffic(
  lab: Lab,
  what: string,
  traffic: LabTraffic,
  isAllowed: (found: Wrongs) => boolean,
): Promise<void> {
  for (const found of await traffic.end(VERDICTS)) {
    const { route, count, wrong, failed, longestMs, outcomes } = found;
    const way = `from ${route.from.name} to ${route.place}, ${route.family}`;
    lab.measured(
      `${what}, ${way}`,
      `${wrong} of ${count} connections wrong, ${failed} failed, for ${Math.round(longestMs)} ms`,
    );
    assert.ok(count > 0, way);
    assert.ok(isAllowed(found), `${what}, ${way}: ${JSON.stringify(outcomes)}`);
  }
}

/** The agents have chosen so, and agents that come after them find their rules there, whatever kube-proxy does. */
async function keepsChoice(lab: Lab, choice: Awaited<ReturnType<typeof choiceOn>>): Promise<void> {
  for (const node of lab.nodes) assert.deepEqual(await choiceOn(lab, node), choice);
  const [node] = lab.nodes;
  await withoutWrongs(lab, `${RESTARTS} restarts of the agent and of kube-proxy`, async () => {
    for (let restarts = 0; restarts < RESTARTS; restarts += 1) {
      await Promise.all([replaceAgent(lab, node), localNode(lab.cluster, node).restart('kube-proxy')]);
      assert.deepEqual(await choiceOn(lab, node), { ...choice, by: 'own-rules' });
    }
    await untilServices(lab, [node]);
  });
}

/** Returns when both kubelet and the container runtime answer again. */
async function restart(lab: Lab, node: LabNode, program: Program): Promise<void> {
  await localNode(lab.cluster, node).restart(program);
  await until(
    `a command in the agent's container on ${node.name}`,
    () => lab.agent.exec(node.name, 'ip-masq-agent', 'version'),
    ({ code }) => code === 0,
  );
  await readyOn(lab, node, () => true);
}

/**
 * What differs from a reboot: the kernel, the control plane and the networks of pods live on. Pods may send packets before the
 * agent runs again. These go wrong, but none does when it is Ready.
 */
async function reboot(lab: Lab, dataplane: string): Promise<void> {
  const { agent, cluster, nodes } = lab;
  const [node] = nodes;
  const rules = await settledRules(node);
  const before = await containerOn(lab, node);
  const local = localNode(cluster, node);
  const begun = performance.now();
  await local.kill('kubelet', 'kube-proxy', 'containerd');
  await local.killContainers();
  await node.must('nft', 'flush', 'ruleset');
  {
    // Begins as soon as the client runs again.
    await using early = await startTraffic(lab, PER_SECOND);
    lab.measured(`${dataplane}: the client runs again`, `after ${seconds(begun)}`);
    await readyOn(lab, node, ({ container }) => container?.containerID !== before);
    lab.measured(`${dataplane}: the agent is Ready again`, `after ${seconds(begun)}`);
    await endTraffic(lab, `${dataplane}, before Ready`, early, () => true);
  }
  await using late = await startTraffic(lab, PER_SECOND);
  assert.equal(await node.ownRules(), rules);
  await untilPackets(lab, VERDICTS);
  await untilServices(lab, nodes);
  for (const { name, client } of nodes)
    await until(
      `${PER_SECOND} connections on ${name} since the agent is Ready`,
      () => client.ask('tallies', { stop: false }),
      (tallies) => tallies.length > 0 && tallies.every(({ count }) => count >= PER_SECOND),
    );
  await endTraffic(lab, `${dataplane}, after Ready`, late, ({ wrong }) => wrong === 0);
  const { code, stdout, stderr } = await agent.exec(node.name, ...doctor(cluster));
  assert.equal(code, 0, stdout + stderr);
}

/** kube-proxy has written its rules again: Services lead to pods. */
async function untilServices({ cluster, service }: Lab, nodes: readonly LabNode[]): Promise<void> {
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

/** A pod without tolerations is evicted, so the taint is in force. The agent stays, and a new one starts. */
async function tainted(lab: Lab, key: string): Promise<void> {
  const { kubectl, nodes } = lab;
  const [node] = nodes;
  const taints = async () => (await nodeObject(lab, node)).spec.taints;
  const found = await taints();
  const before = await stateOn(lab, node);
  await startWitness(lab, node);
  await using stack = new AsyncDisposableStack();
  stack.defer(async () => {
    // The controller of nodes removes taints that do not agree with the node's conditions.
    await kubectl.run('taint', 'nodes', node.name, `${key}-`);
    await until('the taint to be gone', taints, (left) => isDeepStrictEqual(left, found));
  });
  await kubectl.must('taint', 'nodes', node.name, `${key}:NoExecute`, `${key}:NoSchedule`);
  await until(
    'the eviction of a pod without tolerations',
    () => hasWitness(lab),
    (isThere) => !isThere,
  );
  assert.deepEqual(await stateOn(lab, node), before);
  await replaceAgent(lab, node);
}

async function nodeObject({ kubectl }: Lab, { name }: LabNode): Promise<Node> {
  return await kubectl.get<Node>('node', name);
}

function seconds(begun: number): string {
  return `${((performance.now() - begun) / 1000).toFixed(1)} s`;
}
