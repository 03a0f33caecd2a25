import '../ip-masq-agent/signals.ts';
import { NAME } from '../../lib/ranges/plan.ts';
import { quote } from '../../lib/text/escape.ts';
import { buildInfo } from '../ip-masq-agent/build-info.ts';
import { EXIT, UsageError } from '../ip-masq-agent/exit.ts';
import { printFailure } from '../ip-masq-agent/failure.ts';
import { flagLines, wrap } from '../ip-masq-agent/flag-help.ts';
import { boolean } from '../ip-masq-agent/flag-kinds.ts';
import { type Flag, flag, flagValues } from '../ip-masq-agent/flag-table.ts';
import { checkTogether, POLICY_FLAGS } from '../ip-masq-agent/flags.ts';
import { finishOutput, print } from '../ip-masq-agent/print.ts';
import { flagTextsOf, type KnownFlags, splitArgs } from '../ip-masq-agent/split-args.ts';
import { FLAGS, OWN_FLAGS } from './flags.ts';
import { run } from './run.ts';

const ASKED = { help: flag(boolean, 'false', ''), version: flag(boolean, 'false', '') } as const;
const flags = new Map<string, Flag<unknown>>(Object.entries({ ...FLAGS, ...ASKED }));
const letters = new Map(Object.entries({ o: 'output', h: 'help' }));
const KNOWN: KnownFlags = { flags, letters, takesValue: () => undefined };

void main(process.argv.slice(2)).then(finishOutput).then(process.exit);

async function main(argv: readonly string[]): Promise<number> {
  try {
    const { words, flags: given } = splitArgs(argv, KNOWN);
    const texts = flagTextsOf(given, KNOWN);
    const { help, version } = flagValues(ASKED, texts);
    if (version) print(`${NAME} ${buildInfo().version} (commit ${buildInfo().commit})\n`);
    if (help) print(helpText());
    if (help || version) return EXIT.ok;
    if (words[0] !== undefined) throw new UsageError(`${quote(words[0])} is not a flag: see --help`);
    const values = flagValues(FLAGS, texts);
    checkTogether(values);
    return await run(values);
  } catch (error) {
    return printFailure(error, { terminates: true, program: NAME });
  }
}

function helpText(): string {
  return `${wrap('', 'Writes the ranges of pods in this cluster to the ConfigMap ip-masq-ranges, a config file for ip-masq-agent.')}

Usage:
  ${NAME} [flags]

Flags:
${flagLines(OWN_FLAGS)}

${wrap('', `It takes all flags of ip-masq-agent, and uses those that say which config files the agents accept: ${POLICY_FLAGS.map((name) => `--${name}`).join(', ')}; and --log-format, --v and --termination-log.`)}
`;
}
