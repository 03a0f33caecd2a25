import { constants, openSync } from 'node:fs';
import { pino } from 'pino';
import { type Colour, type Paint, painter } from '../text/colour.ts';
import { errorCode } from '../text/error.ts';
import { escapeJson, printable } from '../text/escape.ts';

type LogFormat = 'json' | 'text';
export type Logger = pino.Logger;

/**
 * Makes a log on standard error. A line is written before the call returns: nothing is lost if the process ends.
 * All values are escaped: no value can forge a line or send control characters to a terminal.
 *
 * @param format `text` for people, in colour if that is asked for
 * @param verbosity as klog's `--v`: below 3 changes and warnings, from 3 every sync
 */
export function createLogger(format: LogFormat, verbosity: number, isColoured = false): Logger {
  const stderr = patientStream();
  const paint = painter(isColoured);
  const write = format === 'json' ? escapeJson : (line: string) => formatText(line, paint);
  const log = pino(
    {
      base: null,
      level: verbosity >= 3 ? 'debug' : 'info',
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: (line: string) => stderr.write(write(line)) },
  );
  let lost = 0;
  stderr.on('drop', () => {
    lost += 1;
  });
  stderr.on('drain', () => {
    if (lost > 0) log.warn(`the reader of the log was too slow: ${lost} lines are lost`);
    lost = 0;
  });
  return log;
}

/** How long the agent waits for a stuck reader of the log, and how many bytes it keeps for it. */
const PATIENCE_MS = 500;
const KEPT_BYTES = 1024 * 1024;

/** Standard error without buffering. A stuck or closed reader does not stop the agent. */
function patientStream(): ReturnType<typeof pino.destination> {
  let stuckSince: number | undefined;
  const retryEAGAIN = () => {
    stuckSince ??= performance.now();
    return performance.now() - stuckSince < PATIENCE_MS;
  };
  const stream = pino.destination({
    // As `fd` it would load the stream of standard output.
    dest: nonBlockingStderr(),
    sync: true,
    maxLength: KEPT_BYTES,
    retryEAGAIN,
  });
  stream.on('write', (bytes: number) => {
    if (bytes > 0) stuckSince = undefined;
  });
  // What is kept comes as soon as it is read, not only with the next line.
  let again: NodeJS.Timeout | undefined;
  stream.on('error', (error) => {
    if (errorCode(error) !== 'EAGAIN') return;
    clearTimeout(again);
    again = setTimeout(() => stream.write(''), PATIENCE_MS).unref();
  });
  return stream;
}

/** Opens standard error again in non-blocking mode, so that other holders of the pipe keep their mode. */
function nonBlockingStderr(): number {
  try {
    return openSync(
      '/proc/self/fd/2',
      constants.O_WRONLY | constants.O_APPEND | constants.O_NONBLOCK | constants.O_NOCTTY,
    );
  } catch {
    return 2; // a socket, or a file of another user, cannot be opened this way
  }
}

const COLOUR: Readonly<Record<string, Colour>> = { warn: 'yellow', error: 'red', fatal: 'red' };

/** The line as text: `10:20:30.123 INFO  message key=value`, then the lines of `frame`, `verdicts`, `rules` or `transaction`. */
function formatText(json: string, paint: Paint): string {
  const { time, level, msg, frame, verdicts, rules, transaction, ...fields }: Record<string, unknown> =
    JSON.parse(json);
  const name = String(level).toUpperCase().padEnd(5);
  const colour = COLOUR[String(level)];
  const word = colour === undefined ? name : paint(colour, name);
  const head = `${String(time).slice(11, 23)} ${word} ${printable(String(msg))}`;
  const pairs = Object.entries(fields).map(([key, value]) => ` ${printable(key)}=${textValue(value)}`);
  const lines = [frame, verdicts, rules, transaction].flat().filter((line) => line !== undefined);
  return `${[`${head}${pairs.join('')}`, ...lines.map((line) => `  ${printable(String(line))}`)].join('\n')}\n`;
}

function textValue(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return /^[\w./:-]+$/.test(text)
    ? text
    : printable(typeof value === 'string' ? JSON.stringify(value) : text);
}
