import { once } from 'node:events';
import { readdir, readFile, rm, symlink } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Box } from '../lab/box.ts';
import { fromMonotonic } from '../lab/generations.ts';
import { succeed } from '../lab/run.ts';
import { temporaryDirectory } from '../lab/volume.ts';
import { type AgentOptions, startAgent } from './agent.ts';
import type { Families } from './config-files.ts';
import type { BenchNode } from './node.ts';
import { peakOfTools } from './proc.ts';

/** A program and what it reads. */
export interface Call {
  readonly command: readonly string[];
  readonly input: string;
}

/** One round of a script of tool calls. */
export interface Round {
  /** When it started, on the clock of `performance.now()`. */
  readonly start: number;
  /** Milliseconds that it took. */
  readonly took: number;
  /** Milliseconds of CPU that the programs used, all together. */
  readonly cpu: number;
  /** MB that the largest program so far was resident; 15 MB and less may be the script itself. */
  readonly peak: number;
}

const CALLS_SCRIPT = fileURLToPath(new URL('calls.pl', import.meta.url));
const RECORDER = fileURLToPath(new URL('recorder.pl', import.meta.url));
const TIMEOUT_MS = 300_000;

/** A call without input. */
export function call(...command: readonly string[]): Call {
  return { command, input: '' };
}

/** Runs the calls in the box, one after the other, as a plain script does that is already loaded. */
export async function runCalls(box: Box, calls: readonly Call[], rounds = 1): Promise<readonly Round[]> {
  const options = { input: JSON.stringify(calls), timeoutMs: TIMEOUT_MS };
  const output = await succeed(box.run('perl', [CALLS_SCRIPT, `${rounds}`], options));
  return output
    .trimEnd()
    .split('\n')
    .map((line) => {
      const [start = 0, took = 0, cpu = 0, peak = 0] = line.split(' ').map(Number);
      return { start: fromMonotonic(start), took: took / 1000, cpu: cpu / 1000, peak: (peak * 1024) / 1e6 };
    });
}

/** Runs the calls once. */
export async function runOnce(box: Box, ...calls: readonly Call[]): Promise<Round> {
  const [round] = await runCalls(box, calls);
  if (round === undefined) throw new Error('calls.pl prints nothing');
  return round;
}

/** The largest resident size, in MB, of the tools among the programs. */
export async function peakOfCalls(box: Box, calls: readonly Call[], rounds: number): Promise<number> {
  const child = box.spawn('perl', [CALLS_SCRIPT, `${rounds}`], { stdio: ['pipe', 'ignore', 'inherit'] });
  const ended = once(child, 'exit');
  child.stdin?.end(JSON.stringify(calls));
  return await peakOfTools(child.pid ?? Number.NaN, () => ended);
}

/** The tools that an agent calls. */
export interface Recorded {
  /** At a start on a node without the agent's rules. */
  readonly start: readonly Call[];
  /** At a change, and in the look for foreign rules after it. */
  readonly change: readonly Call[];
  /** In a resync that finds nothing to do. */
  readonly idle: readonly Call[];
}

/** Runs an agent with recorder.pl before all tools. */
export async function record(
  node: BenchNode,
  families: Families,
  options: Partial<AgentOptions> = {},
): Promise<Recorded> {
  await using dir = await temporaryDirectory();
  for (const tool of await readdir('/usr/sbin'))
    if (/^(?:nft|ip6?tables.*)$/.test(tool)) await symlink(RECORDER, `${dir.path}/${tool}`);
  await using agent = await startAgent(node, { families, path: dir.path, ...options });
  const start = await takeCalls(dir.path);
  await agent.swap(1);
  const change = await takeCalls(dir.path);
  // The first scrape of this resync reads the counters, which the scrapes of the second one find fresh.
  await agent.resync(1);
  await takeCalls(dir.path);
  await agent.resync(1);
  return { start, change, idle: await takeCalls(dir.path) };
}

/** A call is recorded when it starts: no tool takes longer than this. */
const QUIET_MS = 700;

/** The calls since the last time, once no more come. */
async function takeCalls(dir: string): Promise<readonly Call[]> {
  let [before, lines]: [number, readonly string[]] = [-1, []];
  while (lines.length > before) {
    before = lines.length;
    await delay(QUIET_MS);
    const text = await readFile(`${dir}/calls`, 'utf8').catch(() => '');
    lines = text.split('\n').slice(0, -1);
  }
  await rm(`${dir}/calls`, { force: true });
  return lines.map((line) => JSON.parse(line) as Call);
}

/**
 * The calls until the last write: then the rules are in the kernel.
 *
 * @throws if none of them writes
 */
export function untilWritten(calls: readonly Call[]): readonly Call[] {
  const last = calls.findLastIndex(({ command: [file = ''] }) => file.endsWith('-restore'));
  if (last < 0) throw new Error(`no write among ${calls.length} calls`);
  return calls.slice(0, last + 1);
}
