import type { NodeKind } from './node.ts';
import type { Row } from './row.ts';

export interface BenchOptions {
  /** Those to measure on, for parts that measure on several. */
  readonly nodes: readonly NodeKind[];
  /** Milliseconds that an agent idles before its memory is read. */
  readonly idleMs: number;
}

/** What can be measured alone. */
export interface Part {
  readonly name: string;
  /** In a few words, for the help. */
  readonly about: string;
  measure(options: BenchOptions): Promise<readonly Row[]>;
}

/** Numbers by name. */
export type Sample = Readonly<Record<string, number>>;

/** Does once what is measured. */
export type Subject = (round: number) => Promise<Sample>;

/**
 * Does one after the other, so many times: whatever slows the machine for a while slows all of them.
 *
 * @returns for each name the numbers that came under it, none where it never came
 */
export async function takeTurns(
  rounds: number,
  subjects: readonly Subject[],
): Promise<(name: string) => readonly number[]> {
  const samples = new Map<string, number[]>();
  for (let round = 0; round < rounds; round += 1) {
    for (const subject of subjects) {
      for (const [name, value] of Object.entries(await subject(round))) {
        const taken = samples.get(name);
        if (taken === undefined) samples.set(name, [value]);
        else taken.push(value);
      }
    }
  }
  return (name) => samples.get(name) ?? [];
}

export function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}
