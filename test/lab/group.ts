import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';

/** A program in a process group of its own. What is left of the group is killed when it is disposed of. */
export interface ProcessGroup extends AsyncDisposable {
  /** The program itself, with which the group began. */
  readonly child: ChildProcess;
}

/**
 * Starts a program, which also dies with this process: what it has started then is left.
 *
 * @param signal kills the group, as that of a test does that takes too long
 */
export async function startGroup(
  file: string,
  args: readonly string[],
  { signal, ...options }: SpawnOptions & { readonly signal?: AbortSignal } = {},
): Promise<ProcessGroup> {
  const child = spawn('setpriv', ['--pdeathsig', 'KILL', file, ...args], { ...options, detached: true });
  await once(child, 'spawn');
  const ended = once(child, 'exit');
  const { pid } = child;
  if (pid === undefined) throw new Error('a running process has an id');
  const kill = () => killGroup(pid);
  signal?.addEventListener('abort', kill);
  return {
    child,
    [Symbol.asyncDispose]: async () => {
      signal?.removeEventListener('abort', kill);
      kill();
      await ended;
    },
  };
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // Nothing is left of it.
  }
}
