import { randomInt } from 'node:crypto';
import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from './run.ts';

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

/**
 * A cgroup whose processes together may hold only so much memory: beyond it the kernel kills one, and kubelet the rest. In
 * version 2 the kernel kills all (memory.oom.group), as kubelet has it.
 */
export interface MemoryCgroup extends AsyncDisposable {
  /** The same command, run in the cgroup. */
  wrap(command: Command): Command;
  /** How many processes the kernel has killed in it. */
  kills(): Promise<number>;
  /** The most memory that was charged to it, in bytes. */
  peak(): Promise<number>;
}

/** The names of files in a memory cgroup, of version 1 and 2. */
const MEMORY_FILES = [
  {
    root: join(CGROUPS, 'memory'),
    limit: 'memory.limit_in_bytes',
    peak: 'memory.max_usage_in_bytes',
    kills: 'memory.oom_control',
  },
  {
    root: CGROUPS,
    limit: 'memory.max',
    group: 'memory.oom.group',
    peak: 'memory.peak',
    kills: 'memory.events',
  },
] as const;

/** Why no memory cgroup can be made here; false if one can. */
export async function whyNoMemoryCgroup(): Promise<string | false> {
  try {
    await using _ = await memoryCgroup(2 ** 30);
    return false;
  } catch (error) {
    return String(error);
  }
}

/**
 * Makes one in the memory hierarchy.
 *
 * @throws {Error} if that is not allowed here
 */
export async function memoryCgroup(bytes: number): Promise<MemoryCgroup> {
  const name = `ip-masq-test-${process.pid}-${randomInt(2 ** 32)}`;
  const errors: unknown[] = [];
  for (const { root, limit, peak, kills, ...more } of MEMORY_FILES) {
    const dir = join(root, name);
    try {
      await mkdir(dir);
      await writeFile(join(dir, limit), `${bytes}`, { flag: 'r+' });
      if ('group' in more) await writeFile(join(dir, more.group), '1', { flag: 'r+' });
    } catch (error) {
      await rmdir(dir).catch(() => undefined);
      errors.push(error);
      continue;
    }
    const read = async (file: string) => await readFile(join(dir, file), 'utf8');
    return {
      wrap: ({ file, args }) => ({
        file: 'sh',
        args: ['-c', `echo $$ > ${join(dir, 'cgroup.procs')} && exec "$@"`, 'sh', file, ...args],
      }),
      kills: async () => Number(/^oom_kill (\d+)$/m.exec(await read(kills))?.[1]),
      peak: async () => Number(await read(peak)),
      [Symbol.asyncDispose]: () => removeCgroup(dir),
    };
  }
  throw new Error(`no memory cgroup can be made: ${errors.join('; ')}`);
}
