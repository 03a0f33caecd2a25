import assert from 'node:assert/strict';
import { DATAPLANES, type Kustomization } from '../lab/agent.ts';
import { containerOn, dataplaneOn, readyOn, replaceAgent, stateOn } from '../lab/agent-on-node.ts';
import { localNode, type Program } from '../lab/local-node.ts';
import { settledRules } from '../lab/nodes.ts';
import {
  OTHER_PODS_MEANT,
  PODS_INSIDE,
  packets,
  podsInside,
  untilPackets,
  untilServices,
  type Wrongs,
} from '../lab/packets.ts';
import { type Lab, type LabNode, scenario } from '../lab/scenario.ts';
import { type LabTraffic, PER_SECOND, startTraffic } from '../lab/traffic.ts';
import { until } from '../lab/wait.ts';

const RESTARTS = 20;
/** Only an event can lead to a sync. */
const ARGS = ['--resync-interval=24h', ...OTHER_PODS_MEANT];

onNodes('kubelet and containerd are restarted, and no packet goes wrong', async (lab) => {
  const [node] = lab.nodes;
  await deploy(lab);
  for (const program of ['kubelet', 'containerd'] as const) {
    const before = await stateOn(lab, node);
    await withoutFailures(lab, `${program} restarted`, () => restart(lab, node, program));
    assert.deepEqual(await stateOn(lab, node), before, `the agent after a restart of ${program}`);
  }
});

onNodes('a node loses all containers and rules, as when it reboots, and gets its rules back', async (lab) => {
  for (const { backend, components, args } of DATAPLANES) {
    await deploy(lab, { components, args });
    await reboot(lab, backend);
  }
});

onNodes('the agent first: it takes iptables, and follows kube-proxy when that comes', async (lab) => {
  const { agent, cluster, kubectl, nodes } = lab;
  await deploy(lab);
  await kubectl.must('delete', 'daemonset/ip-masq-agent', '--cascade=foreground');
  {
    await using proxies = new AsyncDisposableStack();
    for (const node of nodes) {
      proxies.use(await localNode(cluster, node).withhold('kube-proxy'));
      await node.must('nft', 'flush', 'ruleset');
    }
    await deploy(lab, { args: ['--resync-interval=1s'] });
    for (const node of nodes) assert.equal(await dataplaneOn(lab, node), 'iptables');
    await withoutFailures(lab, 'kube-proxy comes', async () => {
      await proxies.disposeAsync();
      await untilServices(lab, nodes);
      for (const node of nodes)
        await until(
          `the dataplane of kube-proxy on ${node.name}`,
          () => dataplaneOn(lab, node),
          (dataplane) => dataplane === cluster.proxyMode,
        );
    });
  }
  await keepsDataplane(lab);
  for (const { name } of nodes) {
    const { code, stdout, stderr } = await agent.exec(name, 'ip-masq-agent', 'doctor');
    assert.equal(code, 0, stdout + stderr);
  }
});

onNodes(
  "in nftables the agent's chain comes after that of kube-proxy, also after it starts again",
  async (lab) => {
    await deploy(lab, { components: ['nftables'] });
    for (const node of lab.nodes) {
      await localNode(lab.cluster, node).restart('kube-proxy');
      await until(
        `the chains of kube-proxy and the agent on ${node.name}`,
        () => postroutingChains(node),
        (chains) =>
          chains.at(-1)?.table === 'ip-masq-agent' && chains.some(({ table }) => table !== 'ip-masq-agent'),
      );
    }
    await untilPackets(lab, PODS_INSIDE);
    await untilServices(lab, lab.nodes);
  },
);

/** Restarts disturb others on the nodes, so the cluster must be one of the tests' own. */
function onNodes(title: string, body: (lab: Lab) => Promise<void>): void {
  scenario(title, async (lab, t) => {
    if (lab.cluster.localNodes.length === 0) return t.skip('it disturbs nodes, which needs a local cluster');
    await body(lab);
  });
}

async function deploy(lab: Lab, { args = [], ...kustomization }: Kustomization = {}): Promise<void> {
  await lab.agent.deploy({ args: [...ARGS, ...args], configFiles: podsInside(lab), ...kustomization });
  await untilPackets(lab, PODS_INSIDE);
}

/** Connections all the time while something happens to a node: all are right. */
async function withoutFailures(lab: Lab, what: string, happen: () => Promise<void>): Promise<void> {
  await using traffic = await startTraffic(lab, PER_SECOND);
  const begun = performance.now();
  await happen();
  lab.measured(what, `${seconds(begun)} until all is as before`);
  assert.deepEqual(await packets(lab), PODS_INSIDE);
  await endTraffic(lab, what, traffic, ({ wrong, failed }) => wrong + failed === 0);
}

/** Prints for how long connections went wrong. */
async function endTraffic(
  lab: Lab,
  what: string,
  traffic: LabTraffic,
  isAllowed: (found: Wrongs) => boolean,
): Promise<void> {
  for (const found of await traffic.end(PODS_INSIDE)) {
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

/** The agents use kube-proxy's dataplane, and so do those that come after them. */
async function keepsDataplane(lab: Lab): Promise<void> {
  const { proxyMode } = lab.cluster;
  for (const node of lab.nodes) assert.equal(await dataplaneOn(lab, node), proxyMode);
  const [node] = lab.nodes;
  await withoutFailures(lab, `${RESTARTS} restarts of the agent and of kube-proxy`, async () => {
    for (let restarts = 0; restarts < RESTARTS; restarts += 1) {
      await Promise.all([replaceAgent(lab, node), localNode(lab.cluster, node).restart('kube-proxy')]);
      assert.equal(await dataplaneOn(lab, node), proxyMode);
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
  await untilPackets(lab, PODS_INSIDE);
  await untilServices(lab, nodes);
  for (const { name, client } of nodes)
    await until(
      `${PER_SECOND} connections on ${name} since the agent is Ready`,
      () => client.ask('tallies', { stop: false }),
      (tallies) => tallies.length > 0 && tallies.every(({ count }) => count >= PER_SECOND),
    );
  await endTraffic(lab, `${dataplane}, after Ready`, late, ({ wrong }) => wrong === 0);
  const { code, stdout, stderr } = await agent.exec(node.name, 'ip-masq-agent', 'doctor');
  assert.equal(code, 0, stdout + stderr);
}

interface Chain {
  readonly table: string;
  readonly prio: number;
}

/** The NAT chains in postrouting of IPv4, in the order in which packets meet them. */
async function postroutingChains(node: LabNode): Promise<readonly Chain[]> {
  const { nftables } = JSON.parse(await node.must('nft', '--json', 'list', 'chains', 'ip')) as {
    readonly nftables: readonly {
      readonly chain?: Chain & { readonly type?: string; readonly hook?: string };
    }[];
  };
  return nftables
    .flatMap(({ chain }) => (chain?.type === 'nat' && chain.hook === 'postrouting' ? [chain] : []))
    .toSorted((a, b) => a.prio - b.prio);
}

function seconds(begun: number): string {
  return `${((performance.now() - begun) / 1000).toFixed(1)} s`;
}
