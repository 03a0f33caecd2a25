/** Nanoseconds in each unit of Go's time.ParseDuration. */
const UNITS: Readonly<Record<string, number>> = {
  ns: 1,
  us: 1e3,
  µs: 1e3,
  μs: 1e3,
  ms: 1e6,
  s: 1e9,
  m: 60e9,
  h: 3600e9,
};
const NS_PER_MS = 1e6;

/** The longest delay that Node's timers hold is 2^31-1 ms; 576h is the round number below. */
const SHORTEST_INTERVAL_MS = 100;
const LONGEST_INTERVAL_MS = 576 * 3_600_000;

const TERM = '(\\d+(?:\\.\\d*)?|\\.\\d+)(ns|us|µs|μs|ms|s|m|h)';
/** A Go duration, for the JSON Schema too. */
export const DURATION_PATTERN = `^[-+]?(?:0|(?:${TERM})+)$`;
const DURATION = new RegExp(DURATION_PATTERN);

/**
 * A Go duration in milliseconds, fractions kept; undefined if the text is not one. Summed in whole
 * nanoseconds, so that 1.1h equals 66m. See https://pkg.go.dev/time#ParseDuration.
 */
export function parseDuration(text: string): number | undefined {
  if (!DURATION.test(text)) return undefined;
  let sum = 0;
  for (const [, count, unit = ''] of text.matchAll(new RegExp(TERM, 'g'))) {
    sum += Math.round(Number(count) * (UNITS[unit] ?? Number.NaN));
  }
  return (text.startsWith('-') ? -sum : sum) / NS_PER_MS;
}

/** Milliseconds as Go writes a duration, such as `1m1s`, `1.5s` or `500ms`; see String in https://pkg.go.dev/time. */
export function formatDuration(ms: number): string {
  if (ms < 1000) return `${ms}ms`;
  const [hours, minutes] = [Math.floor(ms / 3_600_000), Math.floor(ms / 60_000) % 60];
  const seconds = `${(ms % 60_000) / 1000}s`;
  if (hours > 0) return `${hours}h${minutes}m${seconds}`;
  return minutes > 0 ? `${minutes}m${seconds}` : seconds;
}

/** What is wrong with a text as a resync interval, as the end of a sentence; undefined if nothing is wrong. */
export function intervalError(text: string): string | undefined {
  const ms = parseDuration(text);
  if (ms === undefined) return 'is not a Go duration';
  if (ms < SHORTEST_INTERVAL_MS || ms > LONGEST_INTERVAL_MS) return 'is not between 100ms and 576h';
  return undefined;
}
