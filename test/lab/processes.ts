import { type FileHandle, open, readdir, readlink } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

const PATIENCE_MS = 60_000;

/** Kills whatever runs in a network namespace, given as `/proc/self/ns/net` shows it, and waits until it is gone. */
export async function killAllIn(netns: string): Promise<void> {
  if ((await namespaceOf('self')) === netns) throw new Error('a box may not kill what runs outside of it');
  // While it is open, no other namespace gets its number.
  await using _held = await opened(netns);
  for (const deadline = Date.now() + PATIENCE_MS; ; await delay(2)) {
    const pids = await processesIn(netns);
    if (pids.length === 0) return;
    if (Date.now() > deadline) throw new Error(`processes ${pids.join(', ')} do not die`);
    for (const pid of pids) kill(pid);
  }
}

/** The namespace as an open file; undefined if no process is in it. */
async function opened(netns: string): Promise<FileHandle | undefined> {
  for (const pid of await processesIn(netns)) {
    const file = await open(`/proc/${pid}/ns/net`).catch(() => undefined);
    if (file !== undefined && (await readlink(`/proc/self/fd/${file.fd}`)) === netns) return file;
    await file?.close();
  }
  return undefined;
}

async function processesIn(netns: string): Promise<readonly number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid) => ((await namespaceOf(pid)) === netns ? [Number(pid)] : [])),
  );
  return found.flat();
}

/** Undefined for a process that has ended, or that is somebody else's. */
async function namespaceOf(pid: string): Promise<string | undefined> {
  return await readlink(`/proc/${pid}/ns/net`).catch(() => undefined);
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It ended by itself in the meantime.
  }
}
