import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Box } from '../lab/box.ts';
import { fromMonotonic } from '../lab/generations.ts';
import { succeed } from '../lab/run.ts';
import { watchPeaks } from './proc.ts';

/** A program and what it reads. */
export interface Call {
  readonly command: readonly string[];
  readonly input: string;
}

/** One round of a script of tool calls. */
export interface Round {
  /** When it began, as `performance.now()` tells. */
  readonly start: number;
  /** Milliseconds that it took. */
  readonly took: number;
  /** Milliseconds of CPU that the programs used, all together. */
  readonly cpu: number;
  /** MB that the largest program of this round, or of one before, was resident; 10 MB and less mean nothing. */
  readonly peak: number;
}

const CALLS_SCRIPT = fileURLToPath(new URL('calls.pl', import.meta.url));
const TIMEOUT_MS = 300_000;
const ENDS = { field: '\x1f', call: '\x1e' };

/** A call without input. */
export function call(...command: readonly string[]): Call {
  return { command, input: '' };
}

/** The form that calls.pl reads and recorder.pl writes. */
function encodeCalls(calls: readonly Call[]): string {
  return calls
    .map(({ input, command }) => [input, ...command].map((field) => field + ENDS.field).join('') + ENDS.call)
    .join('');
}

export function decodeCalls(text: string): readonly Call[] {
  return text
    .split(ENDS.call)
    .slice(0, -1)
    .map((record) => {
      const [input = '', ...command] = record.split(ENDS.field).slice(0, -1);
      return { input, command };
    });
}

/** Runs one call once. */
export async function runCall(box: Box, command: Call): Promise<Round> {
  const [round] = await runCalls(box, [command]);
  if (round === undefined) throw new Error('one round was asked for');
  return round;
}

/** Runs the calls in the box, one after the other, as a plain script does that is there already. */
export async function runCalls(box: Box, calls: readonly Call[], rounds = 1): Promise<readonly Round[]> {
  const input = encodeCalls(calls);
  const output = await succeed(
    box.run('perl', [CALLS_SCRIPT, `${rounds}`], { input, timeoutMs: TIMEOUT_MS }),
  );
  return output
    .trimEnd()
    .split('\n')
    .map((line) => {
      const [start = 0, took = 0, cpu = 0, peak = 0] = line.split(' ').map(Number);
      return {
        start: fromMonotonic(start),
        took: took / 1000,
        cpu: cpu / 1000,
        peak: (peak * 1024) / 1e6,
      };
    });
}

/** The largest resident size, in MB, that one of the programs has had. */
export async function peakOfCalls(box: Box, calls: readonly Call[], rounds: number): Promise<number> {
  const child = box.spawn('perl', [CALLS_SCRIPT, `${rounds}`], { stdio: ['pipe', 'ignore', 'inherit'] });
  const ended = once(child, 'exit');
  child.stdin?.end(encodeCalls(calls));
  return (await watchPeaks(child.pid ?? Number.NaN, () => ended)).tools;
}
