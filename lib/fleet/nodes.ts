import { SystemError } from '../text/error.ts';
import { type Kubectl, runKubectl } from './kubectl.ts';

export interface FleetNode {
  readonly name: string;
  /** Those that its status names: mostly one of each family, and its host name. */
  readonly addresses: readonly string[];
  readonly pod: AgentPod | undefined;
}

interface AgentPod {
  readonly name: string;
  /** Empty if it belongs to none. */
  readonly daemonSet: string;
  /** The container of the agent, if it runs now. */
  readonly container: string | undefined;
  /** Why the agent does not run, or has not been ready since it ended last, in lines; undefined if neither. */
  readonly down: readonly string[] | undefined;
}

/** Bytes of a list of nodes or pods: enough for 10,000. */
const LONGEST_LIST = 64 * 2 ** 20;

const NODE_LINES = '{range .items[*]}{.metadata.name}{"\\t"}{.status.addresses[*].address}{"\\n"}{end}';

/** What is asked for of each pod, in a line of its own, instead of all. kubectl writes what is not a text as JSON. */
const POD_LINES =
  '{range .items[*]}{.spec.nodeName}{"\\t"}{.metadata.name}{"\\t"}{.metadata.deletionTimestamp}{"\\t"}{.status.phase}{"\\t"}{.status.containerStatuses}{"\\t"}{.metadata.ownerReferences[*].name}{"\\n"}{end}';

/**
 * The nodes, each with the pod of its agent.
 *
 * @param ofPods a label selector; empty for all
 * @param ofNodes the same
 * @throws {SystemError} if they cannot be listed, or if there are none
 */
export async function listNodes(
  kubectl: Kubectl,
  ofPods: string,
  ofNodes: string,
): Promise<readonly FleetNode[]> {
  const [nodes, pods] = await Promise.all([
    list(kubectl, 'nodes', ofNodes, `jsonpath=${NODE_LINES}`),
    list(kubectl, 'pods', ofPods, `jsonpath=${POD_LINES}`),
  ]);
  if (nodes.length === 0)
    throw new SystemError(`no node has the labels ${ofNodes}; choose another --node-selector`);
  if (pods.length === 0)
    throw new SystemError(
      `no pod has the labels ${ofPods} in this namespace; choose another --namespace or --selector`,
    );
  // The best comes last, and wins.
  const found = pods.map(podOf).toSorted((one, other) => one.rank - other.rank);
  const byNode = new Map(found.map((pod) => [pod.node, pod]));
  return nodes.map((line) => {
    const [name = '', addresses = ''] = line.split('\t');
    return { name, addresses: addresses.split(' '), pod: byNode.get(name) };
  });
}

async function list(kubectl: Kubectl, what: string, selector: string, output: string) {
  const args = ['get', what, `--selector=${selector}`, `--output=${output}`];
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

interface States {
  readonly running?: object;
  readonly waiting?: { readonly reason?: string; readonly message?: string };
  readonly terminated?: { readonly exitCode?: number; readonly reason?: string; readonly message?: string };
}

/** A pod, its node, and how well it stands for the agent of the node, if there are several. */
function podOf(line: string): AgentPod & { readonly node: string; readonly rank: number } {
  const [node = '', name = '', deleted, phase = '', json = '', daemonSet = ''] = line.split('\t');
  const statuses: readonly ContainerStatus[] = json === '' ? [] : JSON.parse(json);
  const status = statuses.find((one) => one.name === 'ip-masq-agent') ?? statuses[0];
  const isRunning = status?.state?.running !== undefined;
  return {
    node,
    name,
    daemonSet,
    container: isRunning ? status?.name : undefined,
    down: isRunning && status?.ready ? undefined : downOf(status, phase),
    rank: (deleted === '' ? 2 : 0) + (isRunning ? 1 : 0),
  };
}

/** Why the container is not ready. Its state changes while it is started again and again; how it ended does not. */
function downOf(status: ContainerStatus | undefined, phase: string): readonly string[] | undefined {
  const { state, lastState } = status ?? {};
  const ended = state?.terminated ?? lastState?.terminated;
  if (ended !== undefined) {
    const { exitCode, reason = '', message } = ended;
    return [`the agent crash-loops: exit code ${exitCode} (${reason})`, ...linesOf(message)];
  }
  if (state?.waiting !== undefined) {
    const { reason, message } = state.waiting;
    return [`the agent does not start: ${reason}`, ...linesOf(message)];
  }
  return state?.running === undefined ? [`the pod of the agent is ${phase}`] : undefined;
}

function linesOf(message = ''): readonly string[] {
  return message.split('\n').filter((line) => line.trim() !== '');
}
