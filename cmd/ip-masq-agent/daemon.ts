import { InvalidConfigError } from '../../lib/config/invalid-config.ts';
import { createLogger, type Logger } from '../../lib/log/log.ts';
import { writeTerminationMessage } from '../../lib/log/termination.ts';
import { versionText } from './build-info.ts';
import type { Args } from './command.ts';
import { EXIT } from './exit.ts';
import { exitCode, failureLines, isExpected } from './failure.ts';
import { isTerminal, STDERR, wantsColour } from './print.ts';
import { stopSignal } from './signals.ts';

/** Whether V8 has taken all compiled code so far. Defined in a bundle with compiled code only. */
declare const isPrecompiled: (() => boolean) | undefined;

export interface Daemon {
  /** Ends, or fails with an AbortError, after a signal. */
  readonly work: Promise<unknown>;
  /** Runs after a signal has stopped the work. */
  readonly afterStop?: () => Promise<unknown>;
}

/**
 * Runs a container's main process: logs, stops at a signal, and writes the reason of a failure to the termination log.
 * Returns the exit code.
 *
 * @param consequence what an invalid config means, as a clause
 */
export async function runDaemon(
  { flags, ignored }: Args,
  consequence: () => Promise<string>,
  start: (log: Logger) => Daemon,
): Promise<number> {
  const log = logOf(flags);
  let failure: Promise<number> | undefined;
  // Only the first failure says why the agent ends: another one, such as of a standard stream, must not replace it.
  const fail = (error: unknown) => {
    failure ??= reportFailure(error, consequence, log, flags['termination-log']);
    return failure;
  };
  process.on('uncaughtException', async (error) => process.exit(await fail(error)));
  log.info({ pid: process.pid, configDir: flags['config-dir'] }, `starting ${versionText()}`);
  if (typeof isPrecompiled !== 'undefined' && !isPrecompiled())
    log.debug(
      'the start was slow, because V8 refuses the compiled code of this build; run it with its own Node.js and flags',
    );
  if (ignored.length > 0)
    log.info(
      `ignored, because the agent does not use klog: ${ignored.map((name) => `--${name}`).join(', ')}`,
    );
  try {
    const { work, afterStop } = start(log);
    let isInterrupted = false;
    await work.catch((error: unknown) => {
      if (!stopSignal.aborted) throw error;
      isInterrupted = true;
      // An interrupted operation is not a failure; every other error is logged.
      if (error !== stopSignal.reason && !(error instanceof Error && error.name === 'AbortError'))
        log.warn(`while stopping: ${failureLines(error)[0]}`);
    });
    if (stopSignal.aborted) await afterStop?.();
    return isInterrupted && flags.once ? EXIT.system : EXIT.ok;
  } catch (error) {
    return fail(error);
  }
}

/** The log as the flags ask for it. */
export function logOf(flags: Pick<Args['flags'], 'log-format' | 'v'>): Logger {
  // Not process.stderr, which would make the pipe of all who write to it non-blocking.
  const auto = isTerminal(STDERR) ? 'text' : 'json';
  const format = flags['log-format'] === 'auto' ? auto : flags['log-format'];
  return createLogger(format, flags.v, wantsColour(STDERR));
}

async function reportFailure(
  error: unknown,
  consequence: () => Promise<string>,
  log: Logger,
  terminationLog: string,
): Promise<number> {
  const [first = '', ...rest] = failureLines(error);
  const lines = [
    error instanceof InvalidConfigError ? `${first}; ${error.consequence ?? (await consequence())}` : first,
    ...rest,
  ];
  if (isExpected(error)) log.fatal(lines[0] ?? '');
  else log.fatal({ err: error }, 'bug in ip-masq-agent, please report it');
  try {
    await writeTerminationMessage(terminationLog, lines);
  } catch (cause) {
    log.warn(`cannot write ${terminationLog}: ${cause instanceof Error ? cause.message : cause}`);
  }
  return exitCode(error);
}
