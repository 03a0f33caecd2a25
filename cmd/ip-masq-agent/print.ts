import { type Paint, painter } from '../../lib/text/colour.ts';
import { prettyJson, printable } from '../../lib/text/escape.ts';
import { EXIT } from './exit.ts';

/** Whether the stream is a terminal that shows colours; see no-color.org for NO_COLOR. */
export function wantsColour(stream: Pick<NodeJS.WriteStream, 'isTTY'>): boolean {
  return stream.isTTY && !process.env['NO_COLOR'] && process.env['TERM'] !== 'dumb';
}

/** Writes to standard output. A reader that closes it early, such as head(1), is not a failure; a full disk is. */
export function print(text: string): void {
  process.stdout.on('error', onWriteError).write(text);
}

/** Writes what a command has found, for programs: one object, whose `ok` says whether the exit code is 0. */
export function printJson(code: number, value: object): void {
  print(prettyJson({ ok: code === EXIT.ok, ...value }));
}

/** Writes what a command has found in the format of --output; returns the exit code. */
export function printResult(
  format: 'text' | 'json',
  code: number,
  json: object,
  text: (paint: Paint) => string,
): number {
  if (format === 'json') printJson(code, json);
  else print(text(painter(wantsColour(process.stdout))));
  return code;
}

/** Writes a line to standard error. */
export function complain(message: string): void {
  console.error(printable(`ip-masq-agent: ${message}`));
}

function onWriteError({ code, message }: NodeJS.ErrnoException): void {
  if (code === 'EPIPE') return;
  console.error(`ip-masq-agent: cannot write to standard output: ${message}`);
  process.exit(EXIT.system);
}
