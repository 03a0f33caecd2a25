import { existsSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { CGROUPS, removeCgroups } from '../../lab/cgroups.ts';
import { until } from '../lab/wait.ts';
import { placesOf } from './options.ts';

/** Removes what a cluster leaves when its processes have ended, or are ending. The logs stay. */
export async function removeLeftovers(directory: string): Promise<void> {
  const { cgroup, kubeconfig, nodes, state } = placesOf(directory);
  const look = async (): Promise<boolean> => {
    await removeCgroups(cgroup);
    return await hasCgroup(cgroup);
  };
  await until(`the end of the processes in the cgroup ${cgroup}`, look, (isThere) => !isThere);
  for (const path of [kubeconfig, nodes, state])
    await rm(path, { recursive: true, force: true, maxRetries: 10 });
}

async function hasCgroup(cgroup: string): Promise<boolean> {
  const hierarchies = ['', ...(await readdir(CGROUPS))];
  return hierarchies.some((hierarchy) => existsSync(join(CGROUPS, hierarchy, cgroup)));
}
