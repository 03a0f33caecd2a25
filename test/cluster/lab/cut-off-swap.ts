import { watch } from 'node:fs';
import { readdir, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { agentOn } from './agent-on-node.ts';
import { localNode } from './local-node.ts';
import type { Lab, LabNode } from './scenario.ts';
import { until } from './wait.ts';

/** kubelet writes all files of a volume before it moves `..data`. With many of them that takes long enough to be cut off. */
const MANY = 2_000;
/** Adds the many files to the agent's volume. */
export const VOLUME_OF_MANY = {
  target: { kind: 'DaemonSet', name: 'ip-masq-agent' },
  patch: JSON.stringify([
    {
      op: 'add',
      path: '/spec/template/spec/volumes/0/projected/sources/-',
      value: { configMap: { name: 'many' } },
    },
  ]),
};

/** The ConfigMap of the many files. */
export function manyKeys(): object {
  const data = Object.fromEntries(Array.from({ length: MANY }, (_, index) => [`other-${index}`, '']));
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'many' }, data };
}

/** Changes a config file, and kills kubelet when it begins to write. Returns whether `..data` is still where it was. */
export async function killedAmidSwap(lab: Lab, node: LabNode, text: string): Promise<boolean> {
  const { agent, cluster } = lab;
  const local = localNode(cluster, node);
  const { uid } = await agentOn(lab, node);
  const volume = join(local.root, 'var/lib/kubelet/pods', uid, 'volumes/kubernetes.io~projected/config');
  const current = () => readlink(join(volume, '..data'));
  const before = await current();
  // Of earlier volume versions, which may be on their way out.
  const known = await readdir(volume);
  const { promise: killed, resolve } = Promise.withResolvers<void>();
  let isBegun = false;
  const watcher = watch(volume, (_, name) => {
    // The directory of a volume version is named by its time.
    if (isBegun || !name?.startsWith('..2') || known.includes(name)) return;
    isBegun = true;
    resolve(local.kill('kubelet'));
  });
  try {
    await agent.write('ip-masq-operator', text);
    await agent.nudge();
    await until(
      'kubelet to begin a swap',
      async () => isBegun,
      (is) => is,
    );
    await killed;
    return (await current()) === before;
  } finally {
    watcher.close();
  }
}
