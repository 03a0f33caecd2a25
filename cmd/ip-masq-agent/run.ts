import { Agent, InvalidConfigError } from '../../lib/agent/agent.ts';
import { formatProblem } from '../../lib/config/problem.ts';
import { DataplaneError } from '../../lib/dataplane/error.ts';
import { systemHost } from '../../lib/dataplane/host.ts';
import { openIptables } from '../../lib/dataplane/iptables/iptables.ts';
import { createLogger, type Logger } from '../../lib/telemetry/log.ts';
import { writeTerminationMessage } from '../../lib/telemetry/termination.ts';
import { EXIT } from './exit.ts';
import type { FlagValues } from './flags.ts';
import type { ParsedArgs } from './parse-args.ts';
import { stopSignal } from './signals.ts';
import { versionText } from './version.ts';

/** A stop that comes in the middle of a sync waits so long for it, so that a pod is gone within a second. */
const STOP_MS = 800;

/** Keeps the rules until a signal ends it (or once); returns the exit code. */
export async function run({ flags, ignored }: ParsedArgs): Promise<number> {
  const log = createLogger(flags['log-format'], flags.v);
  const fail = (error: unknown) => reportFailure(error, log, flags['termination-log']);
  process.on('uncaughtException', async (error) => process.exit(await fail(error)));
  log.info({ pid: process.pid, configDir: flags['config-dir'] }, `starting ${versionText()}`);
  if (ignored.length > 0)
    log.info(`ignored, klog is not used here: ${ignored.map((name) => `--${name}`).join(', ')}`);

  const agent = createAgent(flags, log);
  announceStop(log, flags['cleanup-on-exit']);
  process.on('SIGHUP', () => agent.reload());
  try {
    const work = flags.once
      ? agent.sync({ reason: 'start', since: performance.now() }, stopSignal)
      : agent.run(stopSignal);
    await work.catch((error: unknown) => {
      if (!stopSignal.aborted) throw error;
      // What the stop interrupted is no failure; what failed by itself should still be known.
      if (!(error instanceof Error && error.name === 'AbortError'))
        log.warn(`while stopping: ${failureLines(error)[0]}`);
    });
    if (stopSignal.aborted && flags['cleanup-on-exit']) await agent.cleanUp(new AbortController().signal);
    return EXIT.ok;
  } catch (error) {
    return fail(error);
  }
}

function createAgent(flags: FlagValues, log: Logger): Agent {
  const host = systemHost(flags['sync-timeout']);
  const dataplane = {
    mode: flags['iptables-mode'],
    chain: flags['masq-chain'],
    randomFully: flags['random-fully'],
    toPorts: flags['to-ports'],
  };
  const options = {
    configDir: flags['config-dir'],
    config: {
      enableIPv6: flags['enable-ipv6'],
      cidrLimit: flags['cidr-limit'],
      strict: flags.strict,
      noMasqAllReservedRanges: flags['nomasq-all-reserved-ranges'],
    },
    resyncInterval: flags['resync-interval'],
    syncTimeout: flags['sync-timeout'],
  };
  return new Agent(options, () => openIptables(dataplane, host), log);
}

/** Says that the agent stops, and sees to it that it does. */
function announceStop(log: Logger, cleanUp: boolean): void {
  const announce = () => {
    log.info(`${stopSignal.reason}: stopping, ${cleanUp ? 'removing the rules' : 'the rules stay'}`);
    if (cleanUp) {
      // Whoever asks twice does not want to wait for a busy lock.
      for (const name of ['SIGTERM', 'SIGINT']) process.on(name, () => process.exit(EXIT.system));
    } else {
      // A transaction that still runs is the kernel's to finish or refuse as a whole.
      setTimeout(() => process.exit(EXIT.ok), STOP_MS).unref();
    }
  };
  if (stopSignal.aborted) announce();
  else stopSignal.addEventListener('abort', announce);
}

async function reportFailure(error: unknown, log: Logger, terminationLog: string): Promise<number> {
  const lines = failureLines(error);
  if (error instanceof InvalidConfigError || error instanceof DataplaneError)
    log.fatal(lines[0] ?? error.message);
  else log.fatal({ err: error }, 'bug in ip-masq-agent, please report it');
  try {
    await writeTerminationMessage(terminationLog, lines);
  } catch (cause) {
    log.warn(`cannot write ${terminationLog}: ${cause instanceof Error ? cause.message : cause}`);
  }
  return error instanceof InvalidConfigError ? EXIT.config : EXIT.system;
}

function failureLines(error: unknown): readonly string[] {
  if (error instanceof InvalidConfigError) return [error.message, ...error.problems.map(formatProblem)];
  if (error instanceof DataplaneError) return [`${error.message}; ${error.remedy}`];
  return [error instanceof Error ? (error.stack ?? error.message) : String(error)];
}
