import { readdir, rmdir } from 'node:fs/promises';
import { join } from 'node:path';

export const CGROUPS = '/sys/fs/cgroup';

/** Removes a cgroup, and all in it, from every hierarchy: version 1 has one for each controller, version 2 one for all. */
export async function removeCgroups(cgroup: string): Promise<void> {
  const controllers = await readdir(CGROUPS).catch(() => []);
  for (const dir of [CGROUPS, ...controllers.map((controller) => join(CGROUPS, controller))])
    await removeCgroup(join(dir, cgroup));
}

/** The files of a cgroup go with it, and cannot be removed; the groups in it can. */
async function removeCgroup(dir: string): Promise<void> {
  const entries = await readdir(dir, { withFileTypes: true }).catch(() => []);
  for (const entry of entries) if (entry.isDirectory()) await removeCgroup(join(dir, entry.name));
  // A controller may be another name of a second one, and then it is gone already.
  await rmdir(dir).catch(() => undefined);
}
