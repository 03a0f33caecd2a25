import { pino } from 'pino';

/** A log, and the lines that are written to it. */
export function capturedLog() {
  const lines: Readonly<Record<string, unknown>>[] = [];
  const log = pino({ base: null }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  return { log, lines };
}
