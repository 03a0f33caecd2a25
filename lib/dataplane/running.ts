/** The tools that run. Each leads a process group, in which are also the processes that it has started. */
const running = new Set<number>();

/** Takes note of a tool that was started. */
export function toolStarted(pid: number | undefined): void {
  if (pid !== undefined) running.add(pid);
}

/** Takes note of the end of a tool. */
export function toolEnded(pid: number | undefined): void {
  if (pid !== undefined) running.delete(pid);
}

/** Kills a tool, and what it has started. Half a transaction is never left: the kernel takes one whole, or nothing. */
export function killTool(pid: number | undefined): void {
  if (pid === undefined || !running.has(pid)) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

/** Kills all tools. Call it when this process ends: the kernel would let them run on. */
export function endTools(): void {
  for (const pid of running) killTool(pid);
}
