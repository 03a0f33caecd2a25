import type { Lab, LabNode } from './scenario.ts';

const WITNESS = 'witness';

/** Starts a pod on the node that any taint evicts. */
export async function startWitness({ cluster, kubectl }: Lab, { name }: LabNode): Promise<void> {
  const tolerations = ['not-ready', 'unreachable'].map((condition) => ({
    key: `node.kubernetes.io/${condition}`,
    operator: 'Exists',
    effect: 'NoExecute',
    // Otherwise the API server adds five minutes.
    tolerationSeconds: 0,
  }));
  const program = 'process.on("SIGTERM", () => process.exit()); setInterval(() => {}, 60_000)';
  await kubectl.apply({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: WITNESS },
    spec: {
      nodeName: name,
      tolerations,
      automountServiceAccountToken: false,
      containers: [{ name: 'witness', image: cluster.image, command: ['node', '-e', program] }],
    },
  });
  await kubectl.must('wait', `pod/${WITNESS}`, '--for=condition=Ready', '--timeout=180s');
}

/** It has not been evicted, or not yet. */
export async function hasWitness({ kubectl }: Lab): Promise<boolean> {
  return (await kubectl.must('get', 'pod', WITNESS, '--ignore-not-found', '--output=name')) !== '';
}
