import { realpath, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { readLines } from '../../lab/lines.ts';
import { temporaryDirectory } from '../../lab/volume.ts';
import { CONTROLLER_IMAGE, REPORTER_IMAGE } from '../local/readiness.ts';
import type { Kustomization } from './agent.ts';
import { kubectlFor } from './kubectl.ts';
import type { Node } from './objects.ts';
import { podsInside } from './packets.ts';
import type { Lab } from './scenario.ts';

/** The names in the component. */
export const TAINT = 'readiness.k8s.io/ip-masq-agent';
export const CONDITION = 'ip-masq-agent/Ready';
export const REPORTER = 'ip-masq-agent-node-readiness';
/** The names in the controller's kustomization. */
export const CONTROLLER_NAMESPACE = 'nrr-system';
export const CONTROLLER = 'deployment/nrr-controller-manager';

/** The agent, whose packets to nodes are masqueraded. */
export function agentAlone(lab: Lab): Kustomization {
  return { configFiles: podsInside(lab) };
}

/** The same with the component, whose reporter is the one that was built here. */
export function agentWithComponent(lab: Lab): Kustomization {
  const path = '/spec/template/spec/containers/0/image';
  const patch = JSON.stringify([{ op: 'replace', path, value: REPORTER_IMAGE }]);
  const patches = [{ target: { kind: 'DaemonSet', name: REPORTER }, patch }];
  return { ...agentAlone(lab), components: ['node-readiness'], patches };
}

/**
 * Installs the controller as its own kustomizations have it, on the first node, which stays. Disposing removes it.
 *
 * @throws {Error} if the cluster has no sources of it
 */
export async function installController({ cluster, nodes }: Lab): Promise<AsyncDisposable> {
  const { readiness } = cluster;
  if (readiness === undefined) throw new Error('the cluster has no node-readiness-controller');
  const kubectl = kubectlFor(cluster, CONTROLLER_NAMESPACE);
  await using stack = new AsyncDisposableStack();
  const dir = await realpath(stack.use(await temporaryDirectory()).path);
  const [newName, newTag] = CONTROLLER_IMAGE.split(':');
  const place = { 'kubernetes.io/hostname': nodes[0].name };
  const content = {
    resources: ['config/crd', 'config/default'].map((path) => relative(dir, join(readiness, path))),
    images: [{ name: 'controller', newName, newTag }],
    patches: [
      {
        target: { kind: 'Deployment' },
        patch: JSON.stringify([{ op: 'add', path: '/spec/template/spec/nodeSelector', value: place }]),
      },
    ],
  };
  await writeFile(join(dir, 'kustomization.yaml'), JSON.stringify(content));
  stack.defer(async () => void (await kubectl.must('delete', '--kustomize', dir)));
  await kubectl.must('apply', '--server-side', '--kustomize', dir);
  await kubectl.must(
    ...['wait', '--for=condition=Established', '--timeout=60s'],
    'crd/nodereadinessrules.readiness.node.x-k8s.io',
  );
  await kubectl.must(...['rollout', 'status', '--timeout=180s'], CONTROLLER);
  return stack.move();
}

/** Which nodes have the taint. */
export async function taintedNodes({ kubectl, nodes }: Lab): Promise<readonly string[]> {
  const found = await Promise.all(nodes.map(({ name }) => kubectl.get<Node>('node', name)));
  return found
    .filter(({ spec }) => spec.taints?.some(({ key }) => key === TAINT))
    .map(({ metadata }) => metadata.name);
}

/** Everything that happens to nodes, as long as it is not disposed. */
export interface TaintWatch extends Disposable {
  /** The nodes that have had the taint since the last call, once for each event that showed it. */
  seen(): readonly string[];
}

export async function watchTaints({ kubectl }: Lab): Promise<TaintWatch> {
  // Not jsonpath: with a range in it, kubectl ends at the second object.
  const template = '{{.metadata.name}}{{range .spec.taints}} {{.key}}{{end}}{{"\\n"}}';
  const child = kubectl.spawn('get', 'nodes', '--watch', `--output=go-template=${template}`);
  if (child.stdout === null) throw new Error('kubectl has an output');
  const lines = readLines(child.stdout, 'the nodes');
  await lines.next((text) => text !== '');
  return {
    seen: () => {
      if (child.exitCode !== null) throw new Error(`kubectl has ended with exit code ${child.exitCode}`);
      return lines
        .drain()
        .map(({ text }) => text.split(' '))
        .flatMap(([name = '', ...taints]) => (taints.includes(TAINT) ? [name] : []));
    },
    [Symbol.dispose]: () => {
      child.kill('SIGKILL');
    },
  };
}
