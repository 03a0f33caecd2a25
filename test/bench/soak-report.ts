/** What a soak has seen, in words and as a picture. */
import { median, quantile } from './row.ts';
import { chart, type Point, type Series } from './svg.ts';

export interface Soak {
  /** Milliseconds of each change, in order. */
  readonly changes: readonly number[];
  /** Milliseconds of each repair, in order. */
  readonly repairs: readonly number[];
  readonly scrapes: number;
  readonly samples: readonly SoakSample[];
  /** Milliseconds of CPU that the agent itself has used from the first sample to the last. */
  readonly cpu: number;
}

/** The agent after so many changes. */
export interface SoakSample {
  readonly change: number;
  /** MB. */
  readonly resident: number;
  readonly anonymous: number;
  readonly heap: number;
  readonly openFiles: number;
  /** Timers, sockets, child processes and the like, as Node.js counts them. */
  readonly handles: number;
}

const MEMORY = ['resident', 'anonymous', 'heap'] as const;

/** Points of the curves of latency. */
const BUCKETS = 100;

export function summary(soak: Soak): string {
  const { changes, repairs, scrapes, samples } = soak;
  const later = samples.slice(Math.floor(samples.length / 2));
  const [first, last] = [samples[0], samples.at(-1)];
  const memory = MEMORY.map((part) => {
    const values = samples.map((sample) => sample[part]);
    const slope = slopeOf(later.map((sample): Point => [sample.change, sample[part]]));
    const [early, late] = [firstTenth(values), lastTenth(values)];
    const tenths = `median ${ms(median(early))} → ${ms(median(late))} MB, least ${ms(Math.min(...early))} → ${ms(Math.min(...late))} MB (first and last tenth)`;
    return `  ${part.padEnd(10)} ${tenths}, at most ${ms(Math.max(...values))} MB; over the last half ${signed(slope * 1_000_000)} kB in 1,000 changes`;
  });
  return [
    `${count(changes.length)} changes, ${count(repairs.length)} repairs, ${count(scrapes)} scrapes; ${ms(soak.cpu / changes.length)} ms CPU of the agent itself for each change and what comes with it`,
    ...memory,
    `  reaction   ${latency(changes)}`,
    `  repair     ${latency(repairs)}`,
    `  open files ${first?.openFiles} → ${last?.openFiles}, at most ${Math.max(...samples.map(({ openFiles }) => openFiles))}`,
    `  handles    ${first?.handles} → ${last?.handles}, at most ${Math.max(...samples.map(({ handles }) => handles))}`,
  ].join('\n');
}

export function picture({ changes, repairs, samples }: Soak): string {
  const curve = (name: string, read: (sample: SoakSample) => number): Series => ({
    name,
    points: samples.map((sample): Point => [sample.change, read(sample)]),
  });
  const title = `Soak: ${count(changes.length)} changes at full speed`;
  return chart(title, 'changes', [
    { title: 'Memory of the agent, MB', series: MEMORY.map((part) => curve(part, (sample) => sample[part])) },
    {
      title: '..data renamed (or chain flushed) → rules in the kernel, ms',
      series: [
        buckets('reaction, median', changes, changes.length, 0.5),
        buckets('reaction, p95', changes, changes.length, 0.95),
        buckets('repair, median', repairs, changes.length, 0.5),
      ],
    },
    {
      title: 'Handles of the agent',
      series: [
        curve('open files', ({ openFiles }) => openFiles),
        curve('handles of Node.js', ({ handles }) => handles),
      ],
    },
  ]);
}

/** The slope of the line that fits best, by least squares. */
export function slopeOf(points: readonly Point[]): number {
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [x, y] = [mean(points.map(([value]) => value)), mean(points.map(([, value]) => value))];
  const rise = points.reduce((sum, [a, b]) => sum + (a - x) * (b - y), 0);
  return rise / points.reduce((sum, [a]) => sum + (a - x) ** 2, 0);
}

function latency(values: readonly number[]): string {
  const [first, last] = [firstTenth(values), lastTenth(values)];
  const of = (share: number) => `${ms(quantile(first, share))} → ${ms(quantile(last, share))} ms`;
  return `median ${of(0.5)}, p95 ${of(0.95)} (first and last tenth)`;
}

function firstTenth(values: readonly number[]): readonly number[] {
  return values.slice(0, Math.ceil(values.length / 10));
}

function lastTenth(values: readonly number[]): readonly number[] {
  return values.slice(-Math.ceil(values.length / 10));
}

/** Values that are spread evenly over so many changes, each point for as many of them. */
function buckets(name: string, values: readonly number[], changes: number, share: number): Series {
  const size = Math.max(1, Math.ceil(values.length / BUCKETS));
  const points = Array.from({ length: Math.ceil(values.length / size) }, (_, index): Point => {
    const part = values.slice(index * size, (index + 1) * size);
    const middle = index * size + part.length / 2;
    return [(middle / values.length) * changes, quantile(part, share)];
  });
  return { name, points };
}

function ms(value: number): string {
  return value.toFixed(1);
}

function signed(value: number): string {
  return `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(1)}`;
}

function count(value: number): string {
  return value.toLocaleString('en');
}
