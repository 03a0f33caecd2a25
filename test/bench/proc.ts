/** What proc(5) tells about a process. */
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

/** Milliseconds of CPU. */
export interface CpuTime {
  /** Of the process itself, all threads. */
  readonly own: number;
  /** Of its children that have ended, in steps of 10 ms. */
  readonly children: number;
}

/** User space always sees 100 ticks a second. */
const TICK_MS = 10;

function cpuTime(pid: number): CpuTime {
  const nanoseconds = readdirSync(`/proc/${pid}/task`).map((task) =>
    Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0]),
  );
  // The name of the program, which may contain anything, ends before the third field.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  const [cutime, cstime] = fields.slice(13, 15).map(Number);
  return {
    own: nanoseconds.reduce((sum, own) => sum + own, 0) / 1e6,
    children: ((cutime ?? Number.NaN) + (cstime ?? Number.NaN)) * TICK_MS,
  };
}

/** The CPU that a process uses during the action. */
export async function cpuDuring(pid: number, action: () => Promise<unknown>): Promise<CpuTime> {
  const before = cpuTime(pid);
  await action();
  const after = cpuTime(pid);
  return { own: after.own - before.own, children: after.children - before.children };
}

const POLL_MS = 5;
const PATIENCE_MS = 60_000;

/** Timers of an idle process use CPU too: milliseconds of CPU for each millisecond, and at once. */
const IDLE = { share: 0.05, burst: 0.5 } as const;

/** Waits until the process has done nothing for so many milliseconds, and has no child. */
export async function untilQuiet(pid: number, ms: number): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  let [since, before] = [performance.now(), cpuTime(pid).own];
  for (;;) {
    await delay(POLL_MS);
    const [now, own] = [performance.now(), cpuTime(pid).own];
    const isRunning = field(statusOf(pid), 'State').startsWith('R');
    const isBusy = isRunning || own - before > IDLE.burst + IDLE.share * (now - since);
    if (!isBusy && now - since < ms) continue;
    if (!isBusy && !hasChild(pid)) return;
    if (now > deadline) throw new Error(`process ${pid} does not come to rest`);
    [since, before] = [now, own];
  }
}

/** MB, that is 10^6 bytes. */
interface Memory {
  /** Pages that belong to the process alone, without code and libraries that are mapped from files. */
  readonly anonymous: number;
  readonly resident: number;
}

export function memoryOf(pid: number): Memory {
  const status = statusOf(pid);
  return { anonymous: megabytes(status, 'RssAnon'), resident: megabytes(status, 'VmRSS') };
}

function hasChild(pid: number): boolean {
  const processes = readdirSync('/proc').filter((name) => /^\d/.test(name));
  return processes.some((candidate) => field(statusOf(candidate), 'PPid') === `${pid}`);
}

/** Empty if the process has ended. */
function statusOf(pid: number | string): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch {
    return '';
  }
}

function megabytes(status: string, key: string): number {
  return (Number.parseInt(field(status, key), 10) * 1024) / 1e6;
}

/** The value of a `Key:   value` line. */
function field(status: string, key: string): string {
  return new RegExp(`^${key}:\\s*(.*)$`, 'm').exec(status)?.[1] ?? '';
}
