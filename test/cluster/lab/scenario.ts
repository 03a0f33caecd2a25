import { randomBytes } from 'node:crypto';
import { after, type TestContext, test } from 'node:test';
import { type Agent, agentIn } from './agent.ts';
import { type Cluster, clusterFromEnvironment } from './cluster.ts';
import { forgetConnections } from './forget-connections.ts';
import { type Kubectl, kubectlFor, namespaceFor } from './kubectl.ts';
import { localNode } from './local-node.ts';
import { accessTo, type NodeAccess } from './nodes.ts';
import { type Addresses, type ProbedNode, type Probes, STATE_DIR, startProbes } from './probes.ts';

/** What a scenario works with. */
export interface Lab {
  readonly cluster: Cluster;
  /** In the namespace of the scenario. */
  readonly kubectl: Kubectl;
  readonly namespace: string;
  readonly agent: Agent;
  readonly nodes: readonly [LabNode, LabNode];
  /** The ClusterIPs in front of the servers of all nodes. */
  readonly service: Addresses;
  /** Prints a measured value, for people and for the table of the run. */
  measured(what: string, value: string): void;
}

export type LabNode = ProbedNode & NodeAccess;

const LABEL = 'ip-masq-agent.test/scenario';
const TIMEOUT_MS = 900_000;

/** A test with the agent in a real cluster. It makes what it needs, and leaves the cluster as it was. */
export function scenario(
  title: string,
  body: (lab: Lab, t: TestContext) => Promise<void>,
  { timeout = TIMEOUT_MS, skip = false }: { readonly timeout?: number; readonly skip?: string | false } = {},
): void {
  test(title, { timeout, skip }, async (t) => {
    const measured: Lab['measured'] = (what, value) => t.diagnostic(`measured: ${what}: ${value}`);
    await using stack = new AsyncDisposableStack();
    const begun = performance.now();
    const lab = await createLab(stack, measured);
    measured('probes ready', `${Math.round(performance.now() - begun)} ms`);
    try {
      await body(lab, t);
    } catch (error) {
      // If what was made cannot be removed either, the runner shows only that.
      console.error(error);
      console.error(await whatIsThere(lab));
      throw error;
    }
  });
}

async function createLab(stack: AsyncDisposableStack, measured: Lab['measured']): Promise<Lab> {
  const cluster = clusterFromEnvironment();
  const namespace = `ip-masq-test-${randomBytes(3).toString('hex')}`;
  const kubectl = kubectlFor(cluster, namespace);
  // What a run left that was killed. Namespaces that are on their way out have no agent any more.
  await kubectl.must('delete', 'namespaces', `--selector=${LABEL}`, '--field-selector=status.phase=Active');
  await kubectl.apply(namespaceFor(namespace, LABEL));
  stack.defer(async () => {
    await kubectl.must('delete', 'namespace', namespace, '--wait=false');
  });
  const { service } = await sharedProbes(cluster);
  const nodes = await probedNodes(cluster);
  stack.defer(async () => removeAgent(kubectl, await probedNodes(cluster)));
  for (const node of cluster.localNodes.length > 0 ? nodes : [])
    await forgetConnections(localNode(cluster, node));
  const agent = agentIn(kubectl, cluster, namespace);
  return { cluster, kubectl, namespace, agent, nodes, service, measured };
}

/** The nodes with the probes that are on them now. */
async function probedNodes(cluster: Cluster): Promise<Lab['nodes']> {
  const probes = await sharedProbes(cluster);
  const [one, two] = probes.nodes.map((node): LabNode => ({ ...node, ...accessTo(cluster, node) }));
  if (one === undefined || two === undefined) throw new Error('there are two nodes');
  return [one, two];
}

let shared: Promise<Probes> | undefined;

/** All scenarios of a file have the same, which end with the last of them. */
async function sharedProbes(cluster: Cluster): Promise<Probes> {
  shared ??= startProbes(cluster);
  try {
    return await shared;
  } catch (error) {
    shared = undefined;
    throw error;
  }
}

/** Lets go of the probes: those of a node that has left are gone, and another scenario finds the new ones. */
async function releaseProbes(): Promise<void> {
  const probes = await shared;
  shared = undefined;
  await probes?.[Symbol.asyncDispose]();
}

after(releaseProbes);

/** As the README says under "Uninstall", for a DaemonSet that is deleted already. */
async function removeAgent(kubectl: Kubectl, nodes: readonly LabNode[]): Promise<void> {
  await kubectl.must('delete', 'daemonsets', '--selector=app.kubernetes.io/name', '--cascade=foreground');
  const removal = nodes.map(async ({ name, host, ownRules }) => {
    const cleanup = { file: 'ip-masq-agent', args: ['cleanup', `--state-dir=${STATE_DIR}`], input: '' };
    const { code, stderr } = await host.ask('run', cleanup);
    if (code !== 0) throw new Error(`cleanup on ${name} failed: ${stderr}`);
    const rules = await ownRules();
    if (rules !== '') throw new Error(`rules are left on ${name} after cleanup:\n${rules}`);
  });
  await Promise.all(removal);
}

/** For a person who looks for the reason of a failure. */
async function whatIsThere({ kubectl, agent, nodes }: Lab): Promise<string> {
  const parts = [
    async () => await kubectl.must('get', 'pods', '--all-namespaces', '--output=wide'),
    async () =>
      await kubectl.must('describe', 'pods', '--all-namespaces', '--selector=app.kubernetes.io/name'),
    async () => await kubectl.must('get', 'events', '--sort-by=.lastTimestamp'),
    ...nodes.flatMap(({ name, ownRules }) => [
      async () => `the agent's rules on ${name}:\n${await ownRules()}`,
      async () => `the agent's log on ${name}:\n${await agent.log(name, '--tail=100')}`,
      async () => `the log before it:\n${await agent.log(name, '--previous', '--tail=50')}`,
    ]),
  ];
  const texts = await Promise.all(parts.map((part) => part().catch((error: Error) => error.message)));
  return texts.join('\n\n');
}
