import { fstatSync, write } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { isatty } from 'node:tty';
import { type Paint, painter } from '../../lib/text/colour.ts';
import { errorCode, errorMessage } from '../../lib/text/error.ts';
import { prettyJson, printable } from '../../lib/text/escape.ts';
import { EXIT } from './exit.ts';

/** The descriptors of standard output and standard error. Their streams in `process` take 12 ms to load. */
export const [STDOUT, STDERR] = [1, 2];

/** The pause before the next attempt if another program has made a full pipe non-blocking. */
const PAUSE_MS = 10;

/** Settles when all texts so far are written, each after the one before. */
let written: Promise<void> = Promise.resolve();
let outcome: 'complete' | 'closed' | 'failed' = 'complete';

export function isTerminal(descriptor: number): boolean {
  return fstatSync(descriptor).isCharacterDevice() && isatty(descriptor);
}

/** Whether it is a terminal that shows colours; see no-color.org for NO_COLOR. */
export function wantsColour(descriptor: number): boolean {
  return !process.env['NO_COLOR'] && process.env['TERM'] !== 'dumb' && isTerminal(descriptor);
}

/** Writes to standard output. A reader that closes it early, such as head(1), is not a failure; a full disk is. */
export function print(text: string): void {
  written = written.then(async () => {
    if (outcome !== 'complete') return;
    try {
      await writeAll(STDOUT, text);
    } catch (error) {
      outcome = errorCode(error) === 'EPIPE' ? 'closed' : 'failed';
      if (outcome === 'failed')
        await writeLine(`ip-masq-agent: cannot write to standard output: ${errorMessage(error)}`);
    }
  });
}

/**
 * Writes what a command has found in the format of --output; returns the exit code. For programs it is one object, whose `ok` says
 * whether the exit code is 0.
 */
export function printResult(
  format: 'text' | 'json',
  code: number,
  json: object,
  text: (paint: Paint) => string,
): number {
  if (format === 'json') print(prettyJson({ ok: code === EXIT.ok, ...json }));
  else print(text(painter(wantsColour(STDOUT))));
  return code;
}

/** Writes a line to standard error. */
export function complain(message: string): void {
  printError(printable(`ip-masq-agent: ${message}`));
}

/** Writes a line to standard error as it is. */
export function printError(line: string): void {
  written = written.then(() => writeLine(line));
}

/** Waits until all is written; returns the exit code of the command that had this one. */
export async function finishOutput(code: number): Promise<number> {
  await written;
  return outcome === 'failed' ? EXIT.system : code;
}

function writeLine(line: string): Promise<void> {
  // Nobody can be told.
  return writeAll(STDERR, `${line}\n`).catch(() => {});
}

/** Writes in another thread: a reader may let this process wait, and a signal must end it nevertheless. */
async function writeAll(descriptor: number, text: string): Promise<void> {
  for (let rest = Buffer.from(text); rest.length > 0; ) {
    try {
      rest = rest.subarray(await writeSome(descriptor, rest));
    } catch (error) {
      if (errorCode(error) !== 'EAGAIN') throw error;
      await delay(PAUSE_MS);
    }
  }
}

function writeSome(descriptor: number, bytes: Buffer): Promise<number> {
  return new Promise((resolve, reject) => {
    write(descriptor, bytes, (error, count) => (error === null ? resolve(count) : reject(error)));
  });
}
