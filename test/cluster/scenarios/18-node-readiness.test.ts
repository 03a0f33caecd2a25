import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Kustomization } from '../lab/agent.ts';
import { containerOn, readyOn } from '../lab/agent-on-node.ts';
import { kubectlCommands, sectionOf } from '../lab/documentation.ts';
import { joined, rejoin } from '../lab/join.ts';
import { localNode } from '../lab/local-node.ts';
import { isTrue, type Node } from '../lab/objects.ts';
import { ORDINARY, type OrdinaryPods, startOrdinaryPods } from '../lab/ordinary-pods.ts';
import {
  agentAlone,
  agentWithComponent,
  CONDITION,
  CONTROLLER,
  CONTROLLER_NAMESPACE,
  installController,
  REPORTER,
  TAINT,
  taintedNodes,
  watchTaints,
} from '../lab/readiness.ts';
import { type Lab, type LabNode, releaseProbes, scenario } from '../lab/scenario.ts';
import { until } from '../lab/wait.ts';

const JOINS = 5;
/** For so long a closed node stays closed. */
const CLOSED_MS = 20_000;
const RULE = ['nodereadinessrule', 'ip-masq-agent'] as const;

withNodes(
  'without the component, ordinary pods of a new node send before its rules are there',
  async (lab) => {
    await lab.agent.deploy(agentAlone(lab));
    const [, node] = lab.nodes;
    using ordinary = await ordinaryPods(lab);
    await breakConfig(lab);
    await rejoin(lab, node);
    await until('packets of all ordinary pods', ordinary.present, (pods) => pods.length === ORDINARY);
    await mendConfig(lab);
    const { early } = await joined(node, ordinary);
    assert.equal(early, ORDINARY);
  },
);

withNodes('with the taint of kubelet too, no packet of a new node has the address of a pod', async (lab) => {
  await using _ = await withComponent(lab);
  await using _registered = await registersWithTaint(lab);
  const [, node] = lab.nodes;
  using ordinary = await ordinaryPods(lab);
  for (let join = 1; join <= JOINS; join += 1) {
    await rejoin(lab, node);
    const { early, bare } = await joined(node, ordinary);
    assert.deepEqual([early, bare], [0, 0], `join ${join}`);
  }
});

withNodes('the taint of kubelet keeps a new node closed while no controller runs', async (lab) => {
  await using _ = await withComponent(lab);
  const [, node] = lab.nodes;
  using ordinary = await ordinaryPods(lab);
  await using _registered = await registersWithTaint(lab);
  const scale = (replicas: number) =>
    lab.kubectl.must('scale', `--namespace=${CONTROLLER_NAMESPACE}`, CONTROLLER, `--replicas=${replicas}`);
  await scale(0);
  await rejoin(lab, node);
  await readyOn(lab, node, () => true);
  await staysClosed(lab, node, ordinary);
  await scale(1);
  const found = await joined(node, ordinary);
  assert.deepEqual([found.early, found.bare], [0, 0]);
});

withNodes(
  'the component comes and goes, agents restart and are upgraded, and no node is closed',
  async (lab) => {
    const { agent, kubectl, nodes } = lab;
    await agent.deploy(agentAlone(lab));
    await using controller = await installController(lab);
    using watch = await watchTaints(lab);
    const component = agentWithComponent(lab);
    await reporterFirst(lab, component);
    await agent.apply(component);
    await completed(lab);
    assert.deepEqual(watch.seen(), [], 'the component came');

    await kubectl.must('rollout', 'restart', 'daemonset/ip-masq-agent');
    await agent.rolledOut();
    await agent.deploy({ ...component, args: ['--v=3'] });
    for (const node of nodes) {
      const before = await containerOn(lab, node);
      await localNode(lab.cluster, node).killContainers();
      await readyOn(lab, node, ({ container }) => container?.containerID !== before);
    }
    await localNode(lab.cluster, nodes[1]).restart('kubelet');
    await reported(lab);
    assert.deepEqual(watch.seen(), [], 'agents have restarted');

    for (const args of await documentedRemoval()) await kubectl.must(...args);
    await agent.deploy(agentAlone(lab));
    assert.deepEqual(watch.seen(), [], 'the component went');

    // The wrong order, which the documentation warns of: the rule before any reporter.
    for (const { name } of nodes) await forgetCondition(lab, name);
    await agent.apply({ ...component, selector: 'app.kubernetes.io/component=rule' });
    const closed = new Set<string>();
    await until(
      'all nodes to be closed',
      async () => watch.seen().forEach((name) => void closed.add(name)),
      () => closed.size === nodes.length,
    );
    const begun = performance.now();
    await agent.apply(component);
    await completed(lab);
    lab.measured(
      'the rule first',
      `all nodes are closed, and open ${seconds(begun)} after the reporter comes`,
    );
    assert.deepEqual(await taintedNodes(lab), []);
    await agent.delete(component);
    await controller[Symbol.asyncDispose]();
  },
);

withNodes('an invalid ConfigMap keeps only a new node closed', async (lab) => {
  await using _ = await withComponent(lab);
  const [, node] = lab.nodes;
  using ordinary = await ordinaryPods(lab);
  await breakConfig(lab);
  await until(
    'both conditions to be False',
    () => conditions(lab),
    (all) => all.every((status) => status === 'False'),
  );
  assert.deepEqual(await taintedNodes(lab), []);
  await using _registered = await registersWithTaint(lab);
  await rejoin(lab, node);
  await staysClosed(lab, node, ordinary);
  assert.deepEqual(await taintedNodes(lab), [node.name]);
  const mended = performance.now();
  await mendConfig(lab);
  await until(
    'the taint to be gone',
    () => taintedNodes(lab),
    (left) => left.length === 0,
  );
  lab.measured('a closed node opens', `${seconds(mended)} after the ConfigMap is mended`);
  const found = await joined(node, ordinary);
  assert.deepEqual([found.early, found.bare], [0, 0]);
});

withNodes("a reporter writes one condition of its own node, and nothing else of anybody's", async (lab) => {
  await using _ = await withComponent(lab);
  const { kubectl, nodes } = lab;
  const [one, two] = nodes;
  const pod = await kubectl.must(
    ...['get', 'pods', `--selector=app.kubernetes.io/name=${REPORTER}`],
    ...[`--field-selector=spec.nodeName=${one.name}`, '--output=jsonpath={.items[0].metadata.name}'],
  );
  const bound = ['--bound-object-kind=Pod', `--bound-object-name=${pod}`];
  const token = (await kubectl.must('create', 'token', REPORTER, ...bound)).trim();
  const write = async ({ name }: LabNode, change: (node: WritableNode) => void) => {
    const node = await kubectl.get<WritableNode>('node', name);
    change(node);
    const path = `--raw=/api/v1/nodes/${name}/status`;
    const { code, stderr } = await kubectl.feed(node, 'replace', path, '--filename=-', `--token=${token}`);
    return code === 0 ? 'stored' : stderr;
  };
  const report = ({ status }: WritableNode) => {
    for (const condition of status.conditions) if (condition.type === CONDITION) condition.reason = 'Test';
  };
  assert.equal(await write(one, report), 'stored');
  assert.match(await write(two, report), /own node only/);
  assert.match(await write(one, ({ metadata }) => (metadata.labels['stolen'] = 'yes')), /metadata: labels/);
  assert.match(await write(one, ({ status }) => (status.capacity['cpu'] = '99')), /status: capacity/);
  const calm = ({ status }: WritableNode) => {
    for (const condition of status.conditions) if (condition.type === 'Ready') condition.status = 'False';
  };
  assert.match(await write(one, calm), /changes others/);
  const taint = ['taint', 'nodes', one.name, 'stolen=yes:NoSchedule', `--token=${token}`];
  const { code, stderr } = await kubectl.run(...taint);
  assert.notEqual(code, 0);
  assert.match(stderr, /forbidden/i);
  const unbound = (await kubectl.must('create', 'token', REPORTER)).trim();
  const node = await kubectl.get<object>('node', one.name);
  const path = `--raw=/api/v1/nodes/${one.name}/status`;
  const result = await kubectl.feed(node, 'replace', path, '--filename=-', `--token=${unbound}`);
  assert.match(result.stderr, /own node only/);
});

interface WritableNode {
  readonly metadata: { readonly labels: Record<string, string> };
  readonly status: {
    readonly capacity: Record<string, string>;
    readonly conditions: { readonly type: string; status: string; reason: string }[];
  };
}

/** Nodes leave and join, so the cluster must be one of the tests' own, and the controller must be there. */
function withNodes(title: string, body: (lab: Lab) => Promise<void>): void {
  const { CLUSTER_READINESS, CLUSTER_LOCAL } = process.env;
  const why = CLUSTER_LOCAL ? undefined : 'nodes leave and join, which needs a local cluster';
  const skip = why ?? (CLUSTER_READINESS ? false : 'READINESS_SOURCE names no node-readiness-controller');
  const disturbed = async (lab: Lab): Promise<void> => {
    try {
      await body(lab);
    } finally {
      await lab.kubectl.must('wait', 'nodes', '--all', '--for=condition=Ready', '--timeout=120s');
      await releaseProbes();
    }
  };
  scenario(title, disturbed, { skip });
}

/** Deploys the agent, the controller and the component, as the documentation says. */
async function withComponent(lab: Lab): Promise<AsyncDisposable> {
  await using stack = new AsyncDisposableStack();
  const component = agentWithComponent(lab);
  stack.use(await installController(lab));
  await lab.agent.deploy(agentAlone(lab));
  stack.defer(() => lab.agent.delete(component));
  await reporterFirst(lab, component);
  await lab.agent.apply(component);
  await completed(lab);
  return stack.move();
}

/** Everything but the rule, until each node says that it is ready. */
async function reporterFirst(lab: Lab, component: Kustomization): Promise<void> {
  await lab.agent.deploy({ ...component, selector: 'app.kubernetes.io/component!=rule' });
  await reported(lab);
}

async function reported({ kubectl }: Lab): Promise<void> {
  await kubectl.must('rollout', 'status', `daemonset/${REPORTER}`, '--timeout=180s');
  await kubectl.must('wait', 'nodes', '--all', `--for=condition=${CONDITION}`, '--timeout=120s');
}

/** The commands by which the rule goes, and then all else, in the order of the page. */
async function documentedRemoval(): Promise<readonly (readonly string[])[]> {
  const commands = kubectlCommands(await sectionOf('docs/install.md', 'New nodes'));
  const removal = commands.filter(([verb]) => verb === 'delete');
  assert.deepEqual(removal[0], ['delete', ...RULE]);
  assert.equal(removal.length, 2);
  return removal;
}

/** The rule is done with both nodes. */
async function completed({ kubectl, nodes }: Lab): Promise<void> {
  const { metadata } = await kubectl.get<Node>(...RULE);
  for (const { name } of nodes)
    await until(
      `the end of the bootstrap of ${name}`,
      () => kubectl.must('get', 'node', name, '--output=jsonpath={.metadata.annotations}'),
      (annotations) => annotations.includes(metadata.uid),
    );
}

/** What the reporters have written, on all nodes that have it. */
async function conditions({ kubectl, nodes }: Lab): Promise<readonly string[]> {
  const found = await Promise.all(nodes.map(({ name }) => kubectl.get<Node>('node', name)));
  return found.flatMap(({ status }) =>
    status.conditions.filter(({ type }) => type === CONDITION).map(({ status }) => status),
  );
}

async function forgetCondition({ kubectl }: Lab, node: string): Promise<void> {
  const patch = JSON.stringify({ status: { conditions: [{ type: CONDITION, $patch: 'delete' }] } });
  await kubectl.must('patch', 'node', node, '--subresource=status', '--type=strategic', `--patch=${patch}`);
}

/** Ends all agents, by an address that has host bits. Their rules stay. */
async function breakConfig({ agent }: Lab): Promise<void> {
  await agent.write('ip-masq-operator', 'nonMasqueradeCIDRs: [10.0.0.1]\n');
  await agent.podsAre('ended by their config', ({ container }) => (container?.restartCount ?? 0) > 0);
}

async function mendConfig(lab: Lab): Promise<void> {
  await lab.agent.write('ip-masq-operator', agentAlone(lab).configFiles?.['ip-masq-operator'] ?? '');
}

/** Ordinary pods of the second node, whose packets have the node's address. */
async function ordinaryPods(lab: Lab): Promise<OrdinaryPods> {
  const [other, node] = lab.nodes;
  const ordinary = await startOrdinaryPods(lab, node, other);
  await joined(node, ordinary);
  return ordinary;
}

/** The node is Ready, has the taint, and no ordinary pod, for a while. */
async function staysClosed({ kubectl }: Lab, { name }: LabNode, ordinary: OrdinaryPods): Promise<void> {
  const look = () => kubectl.get<Node>('node', name);
  await until(`${name} to be Ready`, look, ({ status }) => isTrue(status.conditions, 'Ready'));
  for (const end = performance.now() + CLOSED_MS; performance.now() < end; await delay(1_000)) {
    const { spec } = await look();
    assert.ok(
      spec.taints?.some(({ key }) => key === TAINT),
      'the taint is gone',
    );
    assert.deepEqual(await ordinary.names(), []);
  }
}

/** kubelet registers the second node with the taint from its next start on. Disposing takes it back. */
async function registersWithTaint({ cluster, nodes: [, node] }: Lab): Promise<AsyncDisposable> {
  const file = join(localNode(cluster, node).root, 'run/cluster', node.name, 'kubelet.json');
  const text = await readFile(file, 'utf8');
  const registerWithTaints = [{ key: TAINT, value: 'pending', effect: 'NoSchedule' }];
  await writeFile(file, JSON.stringify({ ...JSON.parse(text), registerWithTaints }));
  return { [Symbol.asyncDispose]: () => writeFile(file, text) };
}

function seconds(begun: number): string {
  return `${((performance.now() - begun) / 1000).toFixed(1)} s`;
}
