import { readdir, readFile } from 'node:fs/promises';

/** The processes whose cgroup names the container, in the order of their ids. A container's runtime puts its id there. */
export async function processesOf(container: string): Promise<readonly number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const found = await Promise.all(
    pids.map(async (pid) => {
      // A process may end meanwhile.
      const groups = await readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => '');
      return groups.includes(container) ? [pid] : [];
    }),
  );
  return found.flat().toSorted((one, other) => one - other);
}
