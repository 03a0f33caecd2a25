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
  readonly baseline?: Row;
}

/** The table in Markdown. */
export function printTable({ title, rows }: Table): string {
  const head = [title, 'median', 'p95', 'samples', 'ratio'];
  const lines = [head, head.map(() => '---'), ...rows.map(cells)];
  return lines.map((line) => `| ${line.join(' | ')} |`).join('\n');
}

function cells({ name, unit, samples, baseline }: Row): readonly string[] {
  const median = quantile(samples, 0.5);
  const ratio = baseline && `${digits(median / quantile(baseline.samples, 0.5))} × ${baseline.name}`;
  const high = samples.length > 1 ? `${digits(quantile(samples, 0.95))} ${unit}` : '';
  return [name, `${digits(median)} ${unit}`, high, `${samples.length}`, ratio ?? ''];
}

/** The value below which the share of the samples lies. */
function quantile(samples: readonly number[], share: number): number {
  const sorted = samples.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** As many digits as mean something. */
function digits(value: number): string {
  return Number.isInteger(value) ? `${value}` : value.toFixed(Math.abs(value) < 10 ? 2 : 1);
}
