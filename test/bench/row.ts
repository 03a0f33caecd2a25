/** One line of the report: a thing that was done many times. */
export interface Row {
  /** The heading that it stands under. */
  readonly group: string;
  /** Its own within the group. */
  readonly name: string;
  readonly unit: string;
  readonly samples: readonly number[];
  /** Name of the row that this one is compared with, in the same group. */
  readonly baseline?: string;
  /** All of them are to be met. */
  readonly targets?: readonly Target[];
}

/** What a median is to stay below, reckoned from medians of the same run. */
export interface Target {
  readonly text: string;
  /** @param medianOf the median of a row in the same group */
  limit(medianOf: (name: string) => number): number;
}

/** A limit that no other row has a part in. */
export function atMost(limit: number, unit: string): Target {
  return { text: `≤ ${limit} ${unit}`, limit: () => limit };
}

/** The value below which the share of the samples lies; 0.5 gives the median. */
export function quantile(samples: readonly number[], share: number): number {
  const sorted = samples.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export function median(samples: readonly number[]): number {
  return quantile(samples, 0.5);
}

/** What has become of a target: its limit in this run, in the unit of the row, and whether the median keeps to it. */
export interface Verdict {
  readonly text: string;
  readonly limit: number;
  readonly isMet: boolean;
}

/** A row with all that is said of it. */
export interface Result extends Row {
  readonly median: number;
  readonly p95: number;
  /** How many times the median of the baseline its own is; undefined without one. */
  readonly ratio: number | undefined;
  readonly verdicts: readonly Verdict[];
}

/** @throws where a row is compared with one that its group does not have */
export function resultsOf(rows: readonly Row[]): readonly Result[] {
  return rows.map((row) => {
    const medianOf = (name: string): number => {
      const other = rows.find((candidate) => candidate.group === row.group && candidate.name === name);
      if (other === undefined) throw new Error(`no row "${name}" under "${row.group}"`);
      return median(other.samples);
    };
    const own = median(row.samples);
    return {
      ...row,
      median: own,
      p95: quantile(row.samples, 0.95),
      ratio: row.baseline === undefined ? undefined : own / medianOf(row.baseline),
      verdicts: (row.targets ?? []).map(({ text, limit }) => {
        const most = limit(medianOf);
        return { text, limit: most, isMet: own <= most };
      }),
    };
  });
}
