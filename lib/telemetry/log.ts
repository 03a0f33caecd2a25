import { pino } from 'pino';

export type LogFormat = 'json' | 'text';
export type Logger = pino.Logger;

/**
 * A log on standard error, written before the call returns: nothing is lost when the process dies next.
 * No value can forge a line or reach the terminal as more than text.
 *
 * @param verbosity as klog's `--v`: below 3 changes and warnings, from 3 every sync, from 5 every transaction.
 */
export function createLogger(format: LogFormat, verbosity: number): Logger {
  const stderr = pino.destination({ fd: 2, sync: true });
  // A reader that has gone away is no reason to stop keeping the rules.
  stderr.on('error', () => {});
  const write = format === 'json' ? escapeJson : formatText;
  return pino(
    {
      base: null,
      level: verbosity >= 5 ? 'trace' : verbosity >= 3 ? 'debug' : 'info',
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: (line: string) => stderr.write(write(line)) },
  );
}

/** Control and format characters that JSON leaves as they are, although a terminal would not. */
function escapeJson(line: string): string {
  return line.replace(/[\x7f-\x9f\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (char) =>
    char
      .split('')
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}

/** `10:20:30.123 INFO  message key=value`, then the lines of `frame`, `rules` or `transaction`. */
function formatText(json: string): string {
  const { time, level, msg, frame, rules, transaction, ...fields }: Record<string, unknown> =
    JSON.parse(json);
  const head = `${String(time).slice(11, 23)} ${String(level).toUpperCase().padEnd(5)} ${escapeText(String(msg))}`;
  const pairs = Object.entries(fields).map(([key, value]) => ` ${escapeText(key)}=${textValue(value)}`);
  const lines = [frame, rules, transaction].flat().filter((line) => line !== undefined);
  return `${[`${head}${pairs.join('')}`, ...lines.map((line) => `  ${escapeText(String(line))}`)].join('\n')}\n`;
}

function textValue(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return /^[\w./:-]+$/.test(text)
    ? text
    : escapeText(typeof value === 'string' ? JSON.stringify(value) : text);
}

function escapeText(text: string): string {
  return text.replace(
    /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu,
    (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`,
  );
}
