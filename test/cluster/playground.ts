// Brings up a cluster on this machine, with the agent in it, and says how to use it. It stays until `make cluster-down`.
import { dirname, relative } from 'node:path';
import { agentIn } from './lab/agent.ts';
import { clusterFromEnvironment } from './lab/cluster.ts';
import { agentImage } from './lab/image.ts';
import { kubectlFor } from './lab/kubectl.ts';
import { buildPrograms } from './local/build.ts';
import { leaveCluster, stopCluster } from './local/cluster.ts';
import { PLAYGROUND, placesOf } from './local/options.ts';
import { parametersFrom } from './local/parameters.ts';
import { checkRequirements } from './local/requirements.ts';

const NAMESPACE = 'kube-system';

try {
  await play();
} catch (error) {
  console.error(`cluster-up: ${error instanceof Error ? error.message : error}`);
  process.exitCode = 1;
}

async function play(): Promise<void> {
  checkRequirements();
  const parameters = parametersFrom(process.env);
  await buildPrograms(console.log);
  console.log('building the image of the agent, if its sources have changed');
  const image = await agentImage();
  console.log('starting two nodes');
  const env = await leaveCluster({ directory: PLAYGROUND, images: [image], ...parameters });
  try {
    Object.assign(process.env, env);
    const cluster = clusterFromEnvironment();
    await agentIn(kubectlFor(cluster, NAMESPACE), cluster, NAMESPACE).deploy();
  } catch (error) {
    await stopCluster(PLAYGROUND);
    throw error;
  }
  console.log(instructions(env['KUBECTL'] ?? ''));
}

function instructions(kubectl: string): string {
  const { kubeconfig, logs } = placesOf(PLAYGROUND);
  return `
The agent runs on two nodes. Use them from this machine:

  export KUBECONFIG=${kubeconfig} PATH=${dirname(kubectl)}:$PATH
  kubectl get pods -A -o wide
  kubectl -n ${NAMESPACE} exec daemonset/ip-masq-agent -- ip-masq-agent explain --live 198.51.100.7
  kubectl -n ${NAMESPACE} edit configmap ip-masq-operator

The logs of Kubernetes are in ${relative(process.cwd(), logs)}. \`make cluster-down\` removes all but them.`;
}
