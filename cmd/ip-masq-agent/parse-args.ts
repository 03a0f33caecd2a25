import { quote } from '../../lib/text/escape.ts';
import { type CommandLine, commandNamed } from './command.ts';
import { COMMANDS } from './commands.ts';
import { UsageError } from './exit.ts';
import { boolean } from './flag-kinds.ts';
import { type Flag, type FlagTexts, flag, flagValues } from './flag-table.ts';
import { FLAGS, IGNORED_FLAGS } from './flags.ts';
import { flagTextsOf, type KnownFlags, splitArgs } from './split-args.ts';

export interface ParsedArgs extends CommandLine {
  /** `run` if the command line names none. */
  readonly command: string;
  readonly help: boolean;
  readonly version: boolean;
}

/** All flags of all commands. Flags with the same name take a value in every command, or in none. */
const ALL_FLAGS: ReadonlyMap<string, Flag<unknown>> = new Map(
  [FLAGS, ...Object.values(COMMANDS).map(({ own }) => own)].flatMap((table) => Object.entries(table)),
);

/** The names of flags by their letters, which mean the same in every command. */
const LETTERS: ReadonlyMap<string, string> = new Map(
  [...ALL_FLAGS].flatMap(([name, { short }]) => (short === undefined ? [] : [[short, name]])),
);

/** Flags that replace the command. */
const ASKED_FLAGS = {
  help: flag(boolean, 'false', ''),
  h: flag(boolean, 'false', ''),
  version: flag(boolean, 'false', ''),
} as const;

const KNOWN: KnownFlags = {
  flags: ALL_FLAGS,
  letters: LETTERS,
  takesValue(name) {
    if (Object.hasOwn(ASKED_FLAGS, name)) return false;
    const kind = IGNORED_FLAGS.get(name.replaceAll('-', '_'));
    return kind && kind === 'value';
  },
};

/**
 * Reads a command line as Go's flag package does: one dash or two, `=value` or the next word, a boolean
 * without value. Unlike in Go, flags may follow the command, and some collect the values of all times they are given.
 *
 * @throws {UsageError}
 */
export function parseArgs(argv: readonly string[]): ParsedArgs {
  const { command, operands, flags } = divide(argv);
  const flagTexts = flagTextsOf(flags, KNOWN);
  const { h, help, version } = flagValues(ASKED_FLAGS, flagTexts);
  if (help || h) commandNamed(command, COMMANDS);
  else if (!version) checkCommandLine(command, operands, flagTexts);
  const ignored = [...flagTexts.keys()].filter(
    (name) => !ALL_FLAGS.has(name) && !Object.hasOwn(ASKED_FLAGS, name),
  );
  return { command, operands, flagTexts, ignored, help: help || h, version };
}

/** Whether the command keeps running, as the main process of a container: also one that is unknown. */
export function keepsRunning(argv: readonly string[]): boolean {
  const { command } = divide(argv);
  return command === 'run' || !Object.hasOwn(COMMANDS, command);
}

/** The command, the operands and the flags, right or wrong. */
function divide(argv: readonly string[]) {
  const { words, flags } = splitArgs(argv, KNOWN);
  const [command = 'run', ...operands] = words;
  return { command, operands, flags };
}

function checkCommandLine(name: string, operands: readonly string[], flagTexts: FlagTexts): void {
  const { operands: wanted = '', own } = commandNamed(name, COMMANDS);
  const [first] = operands;
  if (wanted === '' && first !== undefined)
    throw new UsageError(`${name} takes no arguments, but got ${quote(first)}: see ${name} --help`);
  if (/^[^[]/.test(wanted) && first === undefined)
    throw new UsageError(`${name} needs an argument: see ${name} --help`);
  for (const given of flagTexts.keys()) {
    const foreign = ALL_FLAGS.has(given) && !Object.hasOwn(FLAGS, given) && !Object.hasOwn(own, given);
    if (foreign) throw new UsageError(`${name} does not take --${given}: see ${name} --help`);
  }
}
