import { isDeepStrictEqual } from 'node:util';
import { configProblems, flagProblems, listenHost } from './args.ts';
import {
  type Container,
  containersOf,
  type DaemonSet,
  isAgent,
  isOurs,
  type KubernetesObject,
  ofKind,
  type PodMonitor,
  type Probe,
} from './documents.ts';
import { schemaProblems } from './schema.ts';
import { volumeProblems } from './volumes.ts';

/**
 * What is wrong with objects that are applied together: each by itself by Kubernetes' schema (a NodeReadinessRule has none here;
 * a scenario of test/cluster applies it), and all together by what
 * no schema knows. Empty where they do what they are for.
 */
export function audit(objects: readonly KubernetesObject[]): readonly string[] {
  const known = objects.filter(({ kind }) => kind !== 'NodeReadinessRule');
  const invalid = known.flatMap((object) =>
    schemaProblems(object).map((problem) => `${object.kind} ${object.metadata?.name}: ${problem}`),
  );
  // What is not of the types of the schema cannot be looked at any further, and flags not for what they mean.
  if (invalid.length > 0) return invalid;
  const daemonSets = ofKind('DaemonSet', objects);
  const agents = daemonSets.filter(isAgent);
  const misused = agents.flatMap(flagProblems);
  if (misused.length > 0) return misused;
  return [
    ...objects
      .filter(({ kind, metadata }) => !isOfCluster(kind) && metadata.namespace !== 'kube-system')
      .map(({ metadata }) => `${metadata.name}: not in kube-system`),
    ...daemonSets.flatMap((daemonSet) => [
      ...referenceProblems(daemonSet, objects),
      ...containersOf(daemonSet).flatMap((container) => networkProblems(container, daemonSet)),
    ]),
    ...agents.flatMap((daemonSet) => [
      ...volumeProblems(daemonSet, objects),
      ...configProblems(daemonSet, objects),
    ]),
    ...ofKind('PodMonitor', objects).flatMap(({ spec }) =>
      agents.flatMap((daemonSet) => scrapeProblems(spec, daemonSet)),
    ),
  ];
}

/** Objects of these kinds are in no namespace. */
function isOfCluster(kind: string): boolean {
  return /^(?:ClusterRole|ClusterRoleBinding|ValidatingAdmissionPolicy\w*|NodeReadinessRule)$/.test(kind);
}

function referenceProblems({ spec }: DaemonSet, objects: readonly KubernetesObject[]): readonly string[] {
  const account = spec.template.spec.serviceAccountName;
  const accounts = ofKind('ServiceAccount', objects).map(({ metadata }) => metadata.name);
  return [
    ...(account !== undefined && accounts.includes(account) ? [] : [`no service account ${account}`]),
    ...(isSubset(spec.selector.matchLabels, spec.template.metadata.labels)
      ? []
      : ['the selector selects no pod of its own']),
  ];
}

/** With the network of the node every port is one of the node; probes come from the node, and Prometheus from afar. */
function networkProblems(container: Container, { spec }: DaemonSet): readonly string[] {
  const { name, ports = [] } = container;
  const probes = Object.entries({
    startupProbe: container.startupProbe,
    livenessProbe: container.livenessProbe,
    readinessProbe: container.readinessProbe,
  });
  const hosts = isOurs(container)
    ? [listenHost(container), listenHost(container, 'scrapes')].filter((host) => host !== undefined)
    : [];
  return [
    ...(spec.template.spec.hostNetwork === true ? [] : [`${name}: not in the network of the node`]),
    ...ports
      .filter(({ containerPort, hostPort }) => hostPort !== containerPort)
      .map(({ containerPort }) => `${name}: port ${containerPort} is not said to be taken on the node`),
    ...hosts
      .filter((host) => !ports.some((port) => port.containerPort === host.port))
      .map((host) => `${name}: port ${host.port} is not among the ports`),
    ...probes.flatMap(([kind, probe]) =>
      probe === undefined ? [] : probeProblems(`${name}: ${kind}`, probe, container),
    ),
  ];
}

const LOOPBACK: readonly string[] = ['127.0.0.1', '::1'];

function probeProblems(what: string, { httpGet }: Probe, container: Container): readonly string[] {
  const port = container.ports?.find(({ name, containerPort }) =>
    [name, containerPort].includes(httpGet.port),
  );
  const listens = listenHost(container);
  const loopback = LOOPBACK.find((host) => host === listens?.host);
  return [
    ...(port?.containerPort === listens?.port ? [] : [`${what} asks a port on which nobody listens`]),
    ...(httpGet.host === loopback ? [] : [`${what} asks an address on which nobody listens`]),
  ];
}

function scrapeProblems(
  { selector, podMetricsEndpoints }: PodMonitor['spec'],
  daemonSet: DaemonSet,
): readonly string[] {
  const { template } = daemonSet.spec;
  const scraped = template.spec.containers.filter(({ ports = [] }) =>
    ports.some(({ name }) => podMetricsEndpoints.some(({ port }) => port === name)),
  );
  return [
    ...(selects(selector, template.metadata.labels) ? [] : ['the PodMonitor selects no pod']),
    ...(scraped.length > 0 ? [] : ['the PodMonitor asks for a port that no container has']),
    ...scraped
      .filter((container) => !isScraped(container))
      .map(({ name }) => `${name}: Prometheus cannot reach loopback`),
  ];
}

/** Whether its metrics, and only those, are on an address of the node that other nodes reach. */
function isScraped(container: Container): boolean {
  const scraped = listenHost(container, 'scrapes')?.host;
  const isLoopback = (host = '') => LOOPBACK.includes(host);
  return (
    isLoopback(listenHost(container)?.host) && ![undefined, ''].includes(scraped) && !isLoopback(scraped)
  );
}

function selects({ matchExpressions }: PodMonitor['spec']['selector'], labels: object = {}): boolean {
  const known: Readonly<Record<string, unknown>> = { ...labels };
  return matchExpressions.every(({ key, values }) => values.some((value) => known[key] === value));
}

function isSubset(some: object, all: object = {}): boolean {
  return isDeepStrictEqual({ ...all, ...some }, { ...all });
}
