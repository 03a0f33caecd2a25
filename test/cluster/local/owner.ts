import { readFile, readlink, rm, symlink } from 'node:fs/promises';

/** A process, named so that a later one with the same number is not taken for it. */
interface Owner {
  readonly pid: number;
  readonly started: string;
}

/** Takes a directory for this process. A link is made with its content at once, so nobody sees half of it. */
export async function claim(link: string): Promise<void> {
  const mine = `${process.pid}:${await startOf(process.pid)}`;
  for (;;) {
    try {
      await symlink(mine, link);
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const owner = await livingOwner(link);
    if (owner !== undefined)
      throw new Error(
        `a cluster is up in this directory, kept by process ${owner}: make cluster-down, or end that process`,
      );
    await rm(link, { force: true });
  }
}

/** The process that owns a directory; undefined if none does or it has died. */
export async function livingOwner(link: string): Promise<number | undefined> {
  const owner = parse(await readlink(link).catch(() => ''));
  if (owner === undefined) return undefined;
  return (await startOf(owner.pid)) === owner.started ? owner.pid : undefined;
}

function parse(text: string): Owner | undefined {
  const [, pid, started] = /^(\d+):(\d+)$/.exec(text) ?? [];
  return pid === undefined || started === undefined ? undefined : { pid: Number(pid), started };
}

/**
 * When a process started, in ticks since boot: field 22 of proc_pid_stat(5). The second field may hold any character, so
 * fields count from behind it. Undefined for a process that has ended, also if nobody has asked for its exit code.
 */
async function startOf(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields[0] === 'Z' ? undefined : fields[19];
}
