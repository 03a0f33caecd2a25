/** One line of the report: a thing that was done many times. */
export interface Row {
  readonly name: string;
  readonly unit: string;
  readonly samples: readonly number[];
  /** Name of the row that this one is compared with. */
  readonly baseline?: string;
}

/** The value below which the share of the samples lies; 0.5 gives the median. */
export function quantile(samples: readonly number[], share: number): number {
  const sorted = samples.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** The rows as a table with median, 95th percentile and the ratio to the baseline. */
export function table(rows: readonly Row[]): string {
  const cells = rows.map(({ name, unit, samples, baseline }) => {
    const median = quantile(samples, 0.5);
    const base = rows.find((row) => row.name === baseline);
    const ratio =
      base === undefined ? '' : `${(median / quantile(base.samples, 0.5)).toFixed(1)} × ${base.name}`;
    return [
      name,
      `${median.toFixed(1)} ${unit}`,
      `${quantile(samples, 0.95).toFixed(1)} ${unit}`,
      `${samples.length}`,
      ratio,
    ];
  });
  const lines = [['what', 'median', 'p95', 'runs', 'ratio'], ...cells];
  const widths =
    lines[0]?.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0))) ?? [];
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
