/** What proc(5) tells of a process. */
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';

/** Milliseconds of CPU. */
export interface CpuTime {
  /** Of the process itself, all threads. */
  readonly own: number;
  /** Of its children that have ended, in steps of 10 ms. */
  readonly children: number;
}

/** Of the fields of `stat`; user space always sees 100 a second. */
const TICK_MS = 10;
const [STATE, PPID, CUTIME, CSTIME] = [0, 1, 13, 14];

export function cpuTime(pid: number): CpuTime {
  const tasks = readdirSync(`/proc/${pid}/task`);
  const nanoseconds = tasks.map((task) =>
    Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0]),
  );
  const fields = stat(pid);
  return {
    own: nanoseconds.reduce((sum, own) => sum + own, 0) / 1e6,
    children: (Number(fields[CUTIME]) + Number(fields[CSTIME])) * TICK_MS,
  };
}

/** From the state on: the name before it may contain anything. */
function stat(pid: number): readonly string[] {
  return readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
}

const POLL_MS = 5;
const PATIENCE_MS = 60_000;

/** A process that has nothing to do may have timers all the same: milliseconds of CPU for each millisecond, and at once. */
const IDLE = { share: 0.05, burst: 0.5 } as const;

/** Waits until the process has done nothing for so many milliseconds, and has no child. */
export async function untilQuiet(pid: number, ms: number): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  let [since, before] = [performance.now(), cpuTime(pid).own];
  for (;;) {
    await delay(POLL_MS);
    const [now, own] = [performance.now(), cpuTime(pid).own];
    const isBusy = stat(pid)[STATE] === 'R' || own - before > IDLE.burst + IDLE.share * (now - since);
    if (!isBusy && now - since < ms) continue;
    if (!isBusy && !hasChildren(pid)) return;
    if (now > deadline) throw new Error(`process ${pid} does not come to rest`);
    [since, before] = [now, own];
  }
}

function hasChildren(pid: number): boolean {
  return readdirSync('/proc').some((name) => {
    try {
      return /^\d/.test(name) && stat(Number(name))[PPID] === `${pid}`;
    } catch {
      return false; // it has ended in the meantime
    }
  });
}

/** MB, that is 10^6 bytes. */
export interface Memory {
  readonly resident: number;
  /** What is its own alone: without the code and the libraries that are mapped from files. */
  readonly anonymous: number;
  /** Resident, pages that others have too counted in part. */
  readonly proportional: number;
}

export function memory(pid: number): Memory {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  return {
    resident: megabytes(status, 'VmRSS'),
    anonymous: megabytes(status, 'RssAnon'),
    proportional: megabytes(rollup, 'Pss'),
  };
}

/** How many files, sockets and pipes it has open. */
export function openFiles(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** Tools that the agent runs, as the kernel calls them. */
const TOOL = /^(?:xtables|ip6?tables|nft)/;

/** Largest resident sizes so far, in MB; NaN where nothing was seen. */
export interface Peaks {
  readonly own: number;
  /** Of the largest tool that the process has run. */
  readonly tools: number;
}

/** Watches a process and its tools while the action goes on. Uses up one processor: not to be timed. */
export async function watchPeaks(pid: number, action: () => Promise<unknown>): Promise<Peaks> {
  const strangers = new Set<string>();
  let peaks: Peaks = { own: Number.NaN, tools: Number.NaN };
  let isOn = true;
  const watching = (async () => {
    for (; isOn; await turn()) {
      const own = peakOf(statusOf(`${pid}`));
      const tools = statusOfTools(pid, strangers).map(peakOf);
      peaks = { own: larger(peaks.own, own), tools: tools.reduce(larger, peaks.tools) };
    }
  })();
  await action();
  isOn = false;
  await watching;
  return peaks;
}

/** @param strangers processes that are known to be none of its children; those that are found are added */
function statusOfTools(pid: number, strangers: Set<string>): readonly string[] {
  const candidates = readdirSync('/proc').filter((name) => /^\d/.test(name) && !strangers.has(name));
  return candidates.flatMap((candidate) => {
    const status = statusOf(candidate);
    if (field(status, 'PPid') === `${pid}`) return TOOL.test(field(status, 'Name')) ? [status] : [];
    strangers.add(candidate);
    return [];
  });
}

/** NaN for one that has ended, whose memory is gone. */
function peakOf(status: string): number {
  return megabytes(status, 'VmHWM');
}

function larger(one: number, other: number): number {
  return one > other || Number.isNaN(other) ? one : other;
}

/** Empty where the process has ended in the meantime. */
function statusOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch {
    return '';
  }
}

function megabytes(status: string, key: string): number {
  return (Number.parseInt(field(status, key), 10) * 1024) / 1e6;
}

/** Of `Key:   value` lines. */
function field(status: string, key: string): string {
  return new RegExp(`^${key}:\\s*(.*)$`, 'm').exec(status)?.[1] ?? '';
}
