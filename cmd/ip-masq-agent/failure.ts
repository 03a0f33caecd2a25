import { problemFramer } from '../../lib/config/frame.ts';
import { InvalidConfigError } from '../../lib/config/invalid-config.ts';
import { formatProblem } from '../../lib/config/problem.ts';
import { DataplaneError } from '../../lib/dataplane/error.ts';
import { writeTerminationMessage } from '../../lib/log/termination.ts';
import { adviceText } from '../../lib/text/advice.ts';
import { painter } from '../../lib/text/colour.ts';
import { SystemError } from '../../lib/text/error.ts';
import { printable } from '../../lib/text/escape.ts';
import { EXIT, UsageError } from './exit.ts';
import { FLAGS } from './flags.ts';
import { printError, STDERR, wantsColour } from './print.ts';

export function exitCode(error: unknown): number {
  if (error instanceof UsageError) return EXIT.usage;
  return error instanceof InvalidConfigError ? EXIT.config : EXIT.system;
}

/** Whether the cause is outside of the agent; otherwise the error is a bug. */
export function isExpected(error: unknown): boolean {
  return [InvalidConfigError, DataplaneError, SystemError].some((kind) => error instanceof kind);
}

/** The error as text: one line that says what happened and what to do, then lines with details. */
export function failureLines(error: unknown): readonly string[] {
  if (error instanceof InvalidConfigError) return [error.message, ...error.problems.map(formatProblem)];
  if (error instanceof DataplaneError) return [adviceText(error)];
  if (error instanceof SystemError) return [error.message];
  return [error instanceof Error ? (error.stack ?? error.message) : String(error)];
}

/**
 * Writes to standard error why a command failed, and returns the exit code.
 *
 * @param terminates whether a wrong command line goes to the termination log too
 */
export async function printFailure(
  error: unknown,
  { terminates, program = 'ip-masq-agent' }: { readonly terminates: boolean; readonly program?: string },
): Promise<number> {
  const lines = plainLines(error, program);
  lines.forEach(printError);
  // A wrong command line has no valid --termination-log, so the default is used.
  if (terminates && error instanceof UsageError)
    await writeTerminationMessage(FLAGS['termination-log'].default, lines).catch(() => {});
  return exitCode(error);
}

function plainLines(error: unknown, program: string): readonly string[] {
  if (error instanceof UsageError) return [`${program}: ${error.message}`];
  if (error instanceof InvalidConfigError)
    return [
      ...error.problems.map(problemFramer(error.configFiles, painter(wantsColour(STDERR)))),
      `${program}: ${error.message}`,
    ];
  const [first = '', ...rest] = failureLines(error);
  if (isExpected(error)) return [printable(`${program}: ${first}`)];
  return [`${program}: bug in ${program}, please report it: ${first}`, ...rest];
}
