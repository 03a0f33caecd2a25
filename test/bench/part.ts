import type { NodeKind } from './node.ts';

export interface BenchOptions {
  /** The nodes for parts that measure on several. */
  readonly nodes: readonly NodeKind[];
  /** Milliseconds that an agent idles before its memory is read. */
  readonly idleMs: number;
  /** The number of rounds to run, given the number that a full measurement takes. */
  rounds(full: number): number;
}

/** A part of the benchmark, which can run alone. */
export type Part = (options: BenchOptions) => AsyncIterable<Table>;

export interface Table {
  readonly title: string;
  readonly rows: readonly Row[];
}

export interface Row {
  readonly name: string;
  readonly unit: string;
  readonly samples: readonly number[];
  /** The row whose median its own is compared with. */
  readonly baseline?: Row | undefined;
  readonly targets?: readonly Target[];
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
  comparison: Pick<Row, 'baseline' | 'targets'> = {},
): Row {
  return { name, unit, samples, ...comparison };
}

export function atMost(limit: number, unit: string): Target {
  return { text: `≤ ${limit} ${unit}`, limit };
}

/** What is measured, by name: each round gives an object of numbers. */
type Subjects = Readonly<Record<string, (round: number) => Promise<object>>>;

/** The numbers of each subject, by their names, in the order of the rounds. */
type Columns<Own extends Subjects> = {
  readonly [Name in keyof Own]: {
    readonly [Key in keyof Awaited<ReturnType<Own[Name]>>]: readonly number[];
  };
};

/** Measures each subject once per round: whatever slows the machine for a while slows all of them. */
export async function takeTurns<Own extends Subjects>(rounds: number, subjects: Own): Promise<Columns<Own>> {
  const columns: Record<string, Record<string, number[]>> = {};
  for (let round = 0; round < rounds; round += 1)
    for (const [name, measure] of Object.entries(subjects)) {
      const own = columns[name] ?? {};
      for (const [key, value] of Object.entries(await measure(round)))
        own[key] = [...(own[key] ?? []), value];
      columns[name] = own;
    }
  return columns as Columns<Own>;
}

export function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}

/** The value below which the share of the samples lies: 0.5 gives the median. */
function quantile(samples: readonly number[], share: number): number {
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

function cells({ name, unit, samples, baseline, targets = [] }: Row): readonly string[] {
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
function digits(value: number): string {
  if (!Number.isFinite(value)) return '–';
  if (Number.isInteger(value)) return `${value}`;
  return value.toFixed(Math.abs(value) < 10 ? 2 : 1);
}

/** A Markdown table, its columns aligned. */
function markdown([head = [], ...lines]: readonly (readonly string[])[]): string {
  const widths = head.map((_, column) =>
    Math.max(...[head, ...lines].map((line) => line[column]?.length ?? 0)),
  );
  const print = (line: readonly string[]) =>
    `| ${widths.map((width, column) => (line[column] ?? '').padEnd(width)).join(' | ')} |`;
  return [head, widths.map((width) => '-'.repeat(width)), ...lines].map(print).join('\n');
}
