/** Milliseconds in each unit of Go's time.ParseDuration. */
const UNITS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** The longest delay that Node's timers hold is 2^31-1 ms; 576h is the round number below. */
const SHORTEST_INTERVAL_MS = 100;
const LONGEST_INTERVAL_MS = 576 * 3_600_000;

/** A Go duration in milliseconds, fractions kept; undefined where the text is none. See https://pkg.go.dev/time#ParseDuration. */
export function parseDuration(text: string): number | undefined {
  if (/^[-+]?0$/.test(text)) return 0;
  const match = /^([-+]?)((?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)$/.exec(text);
  if (match === null) return undefined;
  let sum = 0;
  for (const [, count, unit] of (match[2] ?? '').matchAll(/(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)/g)) {
    sum += Number(count) * (UNITS[unit ?? ''] ?? Number.NaN);
  }
  return match[1] === '-' ? -sum : sum;
}

/** What is wrong with a text as a resync interval, as the end of a sentence; undefined where nothing is. */
export function intervalError(text: string): string | undefined {
  const ms = parseDuration(text);
  if (ms === undefined) return 'is not a Go duration';
  if (ms < SHORTEST_INTERVAL_MS || ms > LONGEST_INTERVAL_MS) return 'is not between 100ms and 576h';
  return undefined;
}
