import { SystemError } from '../text/error.ts';
import { type Kubectl, runKubectl } from './kubectl.ts';

export interface FleetNode {
  readonly name: string;
  readonly pod: AgentPod | undefined;
  /** Why it has no pod, in words. */
  readonly without: string;
}

interface AgentPod {
  readonly name: string;
  /** Empty if it belongs to none. */
  readonly daemonSet: string;
  /** The container of the agent, if it runs now. */
  readonly container: string | undefined;
  /** Why the agent does not run, or has not been ready since it ended last; undefined if neither. */
  readonly down: Down | undefined;
}

interface Down {
  readonly lines: readonly string[];
  /** With which the agent has ended; undefined if it has not run. */
  readonly exitCode?: number | undefined;
}

/** Bytes of a list of nodes or pods: enough for 10,000. */
const LONGEST_LIST = 64 * 2 ** 20;

const NODE_LINES = '{range .items[*]}{.metadata.name}{"\\n"}{end}';

/** What is asked for of each pod, in a line of its own, instead of all. kubectl writes what is not a text as JSON. */
const POD_LINES =
  '{range .items[*]}{.spec.nodeName}{"\\t"}{.metadata.name}{"\\t"}{.metadata.deletionTimestamp}{"\\t"}{.status.phase}{"\\t"}{.status.containerStatuses}{"\\t"}{.metadata.ownerReferences[*].name}{"\\t"}{.status.conditions}{"\\t"}{.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[*].matchFields[*].values[*]}{"\\n"}{end}';

const EVENT_LINES = '{range .items[*]}{.involvedObject.name}{"\\t"}{.reason}: {.message}{"\\n"}{end}';

/**
 * The nodes, each with the pod of its agent.
 *
 * @param ofPods a label selector; empty for all
 * @param ofNodes the same
 * @throws {SystemError} if they cannot be listed, or if there are no nodes
 */
export async function listNodes(
  kubectl: Kubectl,
  ofPods: string,
  ofNodes: string,
): Promise<readonly FleetNode[]> {
  const [nodes, pods] = await Promise.all([
    list(kubectl, 'nodes', `--selector=${ofNodes}`, NODE_LINES),
    list(kubectl, 'pods', `--selector=${ofPods}`, POD_LINES),
  ]);
  if (nodes.length === 0)
    throw new SystemError(`no node has the labels ${ofNodes}; choose another --node-selector`);
  // The best comes last, and wins.
  const found = pods.map(podOf).toSorted((one, other) => one.rank - other.rank);
  const hasWaiting = found.some(({ down }) => down !== undefined && down.exitCode === undefined);
  const events = hasWaiting ? await warnings(kubectl) : new Map<string, string>();
  const byNode = new Map(found.map((pod) => [pod.node, withEvent(pod, events.get(pod.name))]));
  const without =
    pods.length > 0
      ? 'no pod of the agent'
      : `no agent: no pod in this namespace has the labels ${ofPods}; install the agent, or choose another --namespace or --selector`;
  return nodes.map((name) => ({ name, pod: byNode.get(name), without }));
}

/** What the events of pods say why a container waits, as for a ConfigMap that is missing: the last by the names of pods. */
async function warnings(kubectl: Kubectl): Promise<ReadonlyMap<string, string>> {
  const ofPods = '--field-selector=type=Warning,involvedObject.kind=Pod';
  // Without the right to read them, all else is still of use.
  const lines = await list(kubectl, 'events', ofPods, EVENT_LINES).catch(() => []);
  return new Map(lines.map((line) => line.split('\t')).map(([pod = '', text = '']) => [pod, text]));
}

function withEvent(pod: AgentPod, event: string | undefined): AgentPod {
  const { down } = pod;
  if (event === undefined || down === undefined || down.exitCode !== undefined) return pod;
  return { ...pod, down: { lines: [...down.lines, event] } };
}

async function list(kubectl: Kubectl, what: string, selector: string, lines: string) {
  const args = ['get', what, selector, `--output=jsonpath=${lines}`];
  const { killed, code, stdout, told } = await runKubectl(kubectl, args, LONGEST_LIST);
  const why = killed === undefined ? told.at(-1) : WHY_KILLED[killed];
  if (code !== 0) throw new SystemError(`cannot list the ${what}: ${why ?? 'kubectl says nothing'}`);
  return stdout.split('\n').filter((line) => line !== '');
}

const WHY_KILLED = { time: 'no answer in time; see --timeout', size: 'too many', interrupt: 'interrupted' };

/** The part of a container's status that is of use; see ContainerStatus of the Kubernetes API. */
interface ContainerStatus {
  readonly name: string;
  readonly ready?: boolean;
  readonly state?: States;
  readonly lastState?: States;
}

/** See PodCondition of the Kubernetes API. */
interface Condition {
  readonly status?: string;
  readonly message?: string;
}

interface States {
  readonly running?: object;
  readonly waiting?: { readonly reason?: string; readonly message?: string };
  readonly terminated?: { readonly exitCode?: number; readonly reason?: string; readonly message?: string };
}

/** A pod, its node, and how well it stands for the agent of the node, if there are several. */
function podOf(line: string): AgentPod & { readonly node: string; readonly rank: number } {
  const [node = '', name = '', deleted, phase = '', json = '', daemonSet = '', conditions = '', wanted = ''] =
    line.split('\t');
  const statuses: readonly ContainerStatus[] = json === '' ? [] : JSON.parse(json);
  const status = statuses.find((one) => one.name === 'ip-masq-agent') ?? statuses[0];
  const isRunning = status?.state?.running !== undefined;
  return {
    // A pod that no scheduler has placed yet names the node that its DaemonSet wants.
    node: node || (wanted.split(' ')[0] ?? ''),
    name,
    daemonSet,
    container: isRunning ? status?.name : undefined,
    down: isRunning && status?.ready ? undefined : downOf(status, phase, conditions),
    rank: (deleted === '' ? 2 : 0) + (isRunning ? 1 : 0),
  };
}

/** Why the container is not ready. Its state changes while it is started again and again; how it ended does not. */
function downOf(status: ContainerStatus | undefined, phase: string, conditions: string): Down | undefined {
  const { state, lastState } = status ?? {};
  const ended = state?.terminated ?? lastState?.terminated;
  if (ended !== undefined) {
    const { exitCode, reason = '', message } = ended;
    const lines = [`the agent crash-loops: exit code ${exitCode} (${reason})`, ...linesOf(message)];
    return { lines, exitCode };
  }
  if (state?.waiting !== undefined) {
    const { reason, message } = state.waiting;
    return { lines: [`the agent does not start: ${reason}`, ...linesOf(message)] };
  }
  if (state?.running !== undefined) return undefined;
  const all: readonly Condition[] = conditions === '' ? [] : JSON.parse(conditions);
  const unmet = all.filter((one) => one.status === 'False' && one.message);
  return { lines: [`the pod of the agent is ${phase}`, ...unmet.flatMap((one) => linesOf(one.message))] };
}

function linesOf(message = ''): readonly string[] {
  return message.split('\n').filter((line) => line.trim() !== '');
}
