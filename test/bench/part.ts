import type { NodeKind } from './node.ts';

/** A part of the benchmark, which can run alone. */
export interface Part {
  readonly name: string;
  /** In a few words, for the help. */
  readonly about: string;
  measure(options: BenchOptions): Promise<readonly Table[]>;
}

export interface BenchOptions {
  /** The nodes for parts that measure on several. */
  readonly nodes: readonly NodeKind[];
  /** Milliseconds that an agent idles before its memory is read. */
  readonly idleMs: number;
  /** The number of rounds to run, given the number that a full measurement takes. */
  rounds(full: number): number;
}

export interface Table {
  readonly title: string;
  readonly rows: readonly Row[];
}

export interface Row {
  readonly name: string;
  readonly unit: string;
  readonly samples: readonly number[];
  readonly comparison: Comparison;
}

/** What the median of a row is compared with. */
interface Comparison {
  readonly baseline?: Row | undefined;
  readonly targets?: readonly Target[] | undefined;
}

/** A limit for the median of a row. */
export interface Target {
  readonly text: string;
  readonly limit: number;
}

export function row(
  name: string,
  unit: string,
  samples: readonly number[],
  comparison: Comparison = {},
): Row {
  return { name, unit, samples, comparison };
}

export function atMost(limit: number, unit: string): Target {
  return { text: `≤ ${limit} ${unit}`, limit };
}

/** Numbers by name. */
export type Sample = Readonly<Record<string, number>>;

/**
 * Measures each subject once per round: whatever slows the machine for a while slows all of them.
 *
 * @returns for each name its numbers, in the order of the rounds
 */
export async function takeTurns(
  rounds: number,
  subjects: readonly ((round: number) => Promise<Sample>)[],
): Promise<(name: string) => readonly number[]> {
  const samples: Sample[] = [];
  for (let round = 0; round < rounds; round += 1)
    for (const subject of subjects) samples.push(await subject(round));
  return (name) => samples.flatMap((sample) => sample[name] ?? []);
}

export function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}

/** The value below which the share of the samples lies: 0.5 gives the median. */
export function quantile(samples: readonly number[], share: number): number {
  const sorted = samples.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export function median(samples: readonly number[]): number {
  return quantile(samples, 0.5);
}

/** The table in Markdown. */
export function printTable({ title, rows }: Table): string {
  const head = [title, 'median', 'p95', 'samples', 'ratio', 'target'];
  return markdown([head, ...rows.map(cells)]);
}

function cells({ name, unit, samples, comparison: { baseline, targets = [] } }: Row): readonly string[] {
  const own = median(samples);
  const verdicts = targets.map(
    ({ text, limit }) => `${own <= limit ? 'met' : 'NOT MET'}: ${text} (${digits(limit)})`,
  );
  return [
    name,
    `${digits(own)} ${unit}`,
    samples.length > 1 ? `${digits(quantile(samples, 0.95))} ${unit}` : '',
    `${samples.length}`,
    baseline === undefined ? '' : `${digits(own / median(baseline.samples))} × ${baseline.name}`,
    verdicts.join('; '),
  ];
}

/** As many digits as mean something. */
export function digits(value: number): string {
  if (!Number.isFinite(value)) return '–';
  if (Number.isInteger(value)) return `${value}`;
  return value.toFixed(Math.abs(value) < 10 ? 2 : 1);
}

/** A Markdown table, its columns aligned. */
export function markdown([head = [], ...lines]: readonly (readonly string[])[]): string {
  const widths = head.map((_, column) =>
    Math.max(...[head, ...lines].map((line) => line[column]?.length ?? 0)),
  );
  const print = (line: readonly string[]) =>
    `| ${widths.map((width, column) => (line[column] ?? '').padEnd(width)).join(' | ')} |`;
  return [head, widths.map((width) => '-'.repeat(width)), ...lines].map(print).join('\n');
}
