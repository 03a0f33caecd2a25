/** The process ids of the tools that run. Each leads a process group, in which are also the processes that it has started. */
export const running = new Set<number | undefined>();

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
