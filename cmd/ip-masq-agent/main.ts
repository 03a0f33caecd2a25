import './signals.ts';
import { quote } from '../../lib/config/shape.ts';
import { writeTerminationMessage } from '../../lib/telemetry/termination.ts';
import { EXIT, UsageError } from './exit.ts';
import { FLAGS } from './flags.ts';
import { helpText } from './help.ts';
import { type ParsedArgs, parseArgs } from './parse-args.ts';
import { run } from './run.ts';
import { versionText } from './version.ts';

process.exit(await main(process.argv.slice(2)));

async function main(argv: readonly string[]): Promise<number> {
  try {
    return await dispatch(parseArgs(argv));
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    const message = `ip-masq-agent: ${error.message}`;
    console.error(message);
    // The flags are not known, so neither is another place for the message; a pod's is always this.
    await writeTerminationMessage(FLAGS['termination-log'].default, [message]).catch(() => {});
    return EXIT.usage;
  }
}

async function dispatch(args: ParsedArgs): Promise<number> {
  const [command = 'run', ...operands] = args.operands;
  if (args.help || command === 'help') return print(helpText());
  if (args.version || command === 'version') return print(`${versionText()}\n`);
  if (command !== 'run') {
    throw new UsageError(
      `unknown command ${quote(command)}: see --help (a boolean flag takes its value as --flag=false)`,
    );
  }
  if (operands.length > 0)
    throw new UsageError(`run takes no arguments, but got ${quote(operands[0] ?? '')}`);
  return run(args);
}

function print(text: string): number {
  process.stdout.write(text);
  return EXIT.ok;
}
