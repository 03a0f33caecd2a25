/** What proc(5) tells about a process. */
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';

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
    if (!isBusy && childrenOf(pid, new Set()).length === 0) return;
    if (now > deadline) throw new Error(`process ${pid} does not come to rest`);
    [since, before] = [now, own];
  }
}

/** MB, that is 10^6 bytes. */
export interface Memory {
  /** Pages that belong to the process alone, without code and libraries that are mapped from files. */
  readonly anonymous: number;
  readonly resident: number;
  /** Resident, with a share of the pages that other processes use too. */
  readonly proportional: number;
}

export function memoryOf(pid: number): Memory {
  const status = statusOf(pid);
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  return {
    anonymous: megabytes(status, 'RssAnon'),
    resident: megabytes(status, 'VmRSS'),
    proportional: megabytes(rollup, 'Pss'),
  };
}

/** The tools that the agent runs, as the kernel names them. */
const TOOL = /^(?:xtables|ip6?tables|nft)/;

/**
 * The largest resident size, in MB, of the tools that a process runs during the action. Watching them keeps one processor
 * busy: do not time the action.
 */
export async function peakOfTools(pid: number, action: () => Promise<unknown>): Promise<number> {
  const strangers = new Set<string>();
  let peak = 0;
  let isOn = true;
  const watching = (async () => {
    for (; isOn; await turn()) {
      const tools = childrenOf(pid, strangers).filter((status) => TOOL.test(field(status, 'Name')));
      // A process that is about to end has no memory any more.
      peak = Math.max(peak, ...tools.map((status) => megabytes(status, 'VmHWM') || 0));
    }
  })();
  await action();
  isOn = false;
  await watching;
  return peak;
}

/**
 * The status of each child of the process.
 *
 * @param strangers processes that are known not to be children; grows
 */
function childrenOf(pid: number, strangers: Set<string>): readonly string[] {
  const candidates = readdirSync('/proc').filter((name) => /^\d/.test(name) && !strangers.has(name));
  return candidates.flatMap((candidate) => {
    const status = statusOf(candidate);
    if (field(status, 'PPid') === `${pid}`) return [status];
    strangers.add(candidate);
    return [];
  });
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
