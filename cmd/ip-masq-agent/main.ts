import './signals.ts';
import { basename } from 'node:path';
import { endTools } from '../../lib/dataplane/running.ts';
import { endAtOnce } from '../../lib/netlink/native.ts';
import { commandNamed } from './command.ts';
import { COMMANDS } from './commands.ts';
import { keepsRunning, type ParsedArgs, parseArgs } from './parse-args.ts';
import { finishOutput } from './print.ts';
import { stopSignal } from './signals.ts';
import { version } from './version.ts';

// A tool may need minutes for a large table: nobody would wait for it any more.
process.on('exit', endTools);
process.on('exit', endAtOnce);
// A plugin of kubectl is found by its name, in which an underscore stands for the dash of the command.
const isPlugin = basename(process.argv[1] ?? '') === 'kubectl-ip_masq';
const argv = [...(isPlugin ? ['fleet'] : []), ...process.argv.slice(2)];
void main().then(finishOutput).then(process.exit);

async function main(): Promise<number> {
  try {
    return await dispatch(parseArgs(argv));
  } catch (error) {
    const { printFailure } = await import('./failure.ts');
    // A command that is run by hand in the same pod must not write to the termination log.
    return printFailure(error, { terminates: keepsRunning(argv) });
  }
}

async function dispatch(args: ParsedArgs): Promise<number> {
  if (args.version) return version();
  if (args.help)
    return commandNamed('help', COMMANDS).run({
      ...args,
      parse: parseArgs,
      operands: args.command === 'run' ? [] : [args.command],
    });
  // What keeps running stops in order. What fleet knows when it is interrupted, it prints.
  if (!keepsRunning(argv) && args.command !== 'fleet') stopSignal.addEventListener('abort', endByStopSignal);
  return commandNamed(args.command, COMMANDS).run({ ...args, parse: parseArgs });
}

/** Ends the process by the signal, as if there were no handler: a shell then sees what ended the command. */
function endByStopSignal(): void {
  const signal: NodeJS.Signals = stopSignal.reason;
  endTools();
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
}
