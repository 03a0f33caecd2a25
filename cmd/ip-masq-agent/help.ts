import { type Args, type Command, type Commands, commandNamed } from './command.ts';
import { EXIT, EXIT_MEANING } from './exit.ts';
import { flagLines, wrap } from './flag-help.ts';
import { FLAGS } from './flags.ts';
import { print } from './print.ts';

export async function help({ operands: [topic] }: Args, commands: Commands): Promise<number> {
  print(topic === undefined ? helpText(commands) : commandHelp(topic, commandNamed(topic, commands)));
  return EXIT.ok;
}

/** What `--help` prints. */
export function helpText(commands: Commands): string {
  return `${wrap('', "Keeps a node's masquerade rules exactly as the mounted config files say.")}

Usage:
  ip-masq-agent [COMMAND] [flags]

Commands:
${Object.entries(commands)
  .map(([name, { summary }]) => wrap(`  ${name.padEnd(12)}`, summary))
  .join('\n')}

  ip-masq-agent COMMAND --help describes one command.

${exampleLines(commands['run']?.examples ?? {})}

Flags:
${flagLines(FLAGS)}
  --version
      print the version
  --help
      print this, or the help of the command

${wrap('', 'Every command accepts these flags, so that the arguments of a DaemonSet work with each command.')}

Signals:
  SIGTERM, SIGINT    stop; the rules stay, unless --cleanup-on-exit is set
  SIGHUP             read the config files again now

Exit codes:
${Object.entries(EXIT_MEANING)
  .map(([code, meaning]) => wrap(`  ${code}  `, meaning))
  .join('\n')}
`;
}

/** What `COMMAND --help` prints. */
export function commandHelp(
  name: string,
  { summary, details, operands, own, uses = [], examples }: Command,
): string {
  const used = Object.fromEntries(Object.entries(FLAGS).filter(([flag]) => uses.some((use) => use === flag)));
  return [
    wrap('', `${summary.replace(/^./, (letter) => letter.toUpperCase())}.`),
    ...(details === undefined ? [] : [wrap('', details)]),
    `Usage:\n  ip-masq-agent ${[name, operands ?? [], '[flags]'].flat().join(' ')}`,
    exampleLines(examples),
    ...(Object.keys(own).length === 0 ? [] : [`Flags:\n${flagLines(own)}`]),
    ...(Object.keys(used).length === 0
      ? []
      : [`Flags of the agent that this command uses:\n${flagLines(used)}`]),
  ]
    .join('\n\n')
    .concat('\n');
}

function exampleLines(examples: Command['examples']): string {
  const lines = Object.entries(examples).map(
    ([line, meaning]) => `  ip-masq-agent ${line}\n${wrap('      ', meaning)}`,
  );
  return ['Examples:', ...lines].join('\n');
}
