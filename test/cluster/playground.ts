// Brings up a cluster on this machine, with the agent in it, and says how to use it. It stays until `make cluster-down`.
import { relative } from 'node:path';
import { agentIn } from './lab/agent.ts';
import { clusterFromEnvironment } from './lab/cluster.ts';
import { agentImage } from './lab/image.ts';
import { kubectlFor } from './lab/kubectl.ts';
import { buildPrograms } from './local/build.ts';
import { leaveCluster, stopCluster } from './local/cluster.ts';
import { PLAYGROUND, PROGRAMS, placesOf } from './local/options.ts';
import { livingOwner } from './local/owner.ts';
import { parametersFrom } from './local/parameters.ts';
import { checkRequirements } from './local/requirements.ts';

const NAMESPACE = 'kube-system';
const MINUTE_MS = 60_000;
const STEPS = [
  "build Kubernetes, which takes 11 minutes of a core if Go's cache is empty",
  "build the agent's image if its sources have changed, which takes some minutes the first time",
  'start two nodes',
  'roll out the agent',
] as const;

try {
  await play();
} catch (error) {
  console.error(`cluster-up: ${error instanceof Error ? error.message : error}`);
  process.exitCode = 1;
}

async function play(): Promise<void> {
  checkRequirements();
  if ((await livingOwner(placesOf(PLAYGROUND).owner)) !== undefined) {
    console.log(`A cluster is up already: \`make cluster-down\` ends it.\n${instructions()}`);
    return;
  }
  const parameters = parametersFrom(process.env);
  using steps = startSteps();
  await buildPrograms(console.log);
  steps.next();
  const image = await agentImage();
  steps.next();
  const env = await leaveCluster({ directory: PLAYGROUND, images: [image], ...parameters });
  try {
    steps.next();
    Object.assign(process.env, env);
    const cluster = clusterFromEnvironment();
    await agentIn(kubectlFor(cluster, NAMESPACE), cluster, NAMESPACE).deploy();
  } catch (error) {
    await stopCluster(PLAYGROUND);
    throw error;
  }
  console.log(instructions());
}

/** Says at the start of each step, and each minute, what it does and what is left. */
function startSteps(): Disposable & { next(): void } {
  const left = [...STEPS];
  const say = () => {
    const [now, ...then] = left;
    const rest = then.length > 0 ? `; then ${then.join(', ')}` : '';
    console.log(`cluster-up: ${Math.round(process.uptime() / 60)} minutes: ${now}${rest}`);
  };
  say();
  const timer = setInterval(say, MINUTE_MS);
  return {
    next: () => {
      left.shift();
      say();
    },
    [Symbol.dispose]: () => clearInterval(timer),
  };
}

function instructions(): string {
  const { kubeconfig, logs } = placesOf(PLAYGROUND);
  return `
The agent runs on two nodes. Use them from this machine:

  export KUBECONFIG=${kubeconfig} PATH=${PROGRAMS}:$PATH
  kubectl get pods -A -o wide
  kubectl -n ${NAMESPACE} exec daemonset/ip-masq-agent -- ip-masq-agent explain --live 198.51.100.7
  kubectl -n ${NAMESPACE} edit configmap ip-masq-operator

The logs of Kubernetes are in ${relative(process.cwd(), logs)}. \`make cluster-down\` removes all but them.`;
}
