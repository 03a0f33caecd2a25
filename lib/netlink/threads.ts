import { readdir, readFileSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';

/**
 * The name that events of the kernel, and so `nft monitor`, have for the agent's changes over netlink: that of the thread
 * that has sent them (get_task_comm in nf_tables_api.c).
 */
const OWN_THREAD_NAME = 'ip-masq-agent';

/** How libuv calls the threads that send changes, each of which exists from the first use of any on. */
const UNNAMED = 'libuv-worker\n';

let naming: Promise<void> | undefined;

/** Gives the threads that send changes the agent's name, once. If /proc does not let it, they keep theirs. */
export function nameThreads(): Promise<void> {
  naming ??= name().catch(() => {});
  return naming;
}

async function name(): Promise<void> {
  const threads = '/proc/self/task';
  // One of these threads reads this: from then on all are there.
  for (const id of await promisify(readdir)(threads)) {
    const path = `${threads}/${id}/comm`;
    // A process may write the names of its own threads (proc_pid_comm(5)).
    if (readFileSync(path, 'utf8') === UNNAMED) writeFileSync(path, OWN_THREAD_NAME);
  }
}
