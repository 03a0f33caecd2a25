import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CGROUPS } from '../../lab/cgroups.ts';

/** Makes a cgroup for each node: kubelet wants it to be there, with all controllers. */
export async function createCgroups(parent: string, names: readonly string[]): Promise<void> {
  const paths = [parent, ...names.map((name) => join(parent, name))];
  if (existsSync(join(CGROUPS, 'cgroup.controllers'))) return await createV2(paths);
  for (const controller of await readdir(CGROUPS))
    for (const path of paths) await createV1(join(CGROUPS, controller), path);
}

/** cgroups(7): a cgroup of the cpuset controller takes no process before it has both of these. */
async function createV1(controller: string, path: string): Promise<void> {
  const directory = join(controller, path);
  await mkdir(directory, { recursive: true });
  for (const file of ['cpuset.cpus', 'cpuset.mems']) {
    const all = await readFile(join(controller, file)).catch(() => undefined);
    if (all !== undefined) await writeFile(join(directory, file), all);
  }
}

/** cgroups(7): a cgroup has the controllers that its parent hands down. */
async function createV2(paths: readonly string[]): Promise<void> {
  const controllers = (await readFile(join(CGROUPS, 'cgroup.controllers'), 'utf8')).trim().split(' ');
  for (const path of paths) {
    const directory = join(CGROUPS, path);
    await mkdir(directory, { recursive: true });
    for (const controller of controllers)
      await writeFile(join(directory, '..', 'cgroup.subtree_control'), `+${controller}`);
  }
}
