import { quote } from '../../lib/text/escape.ts';
import { type CommandLine, commandNamed } from './command.ts';
import { COMMANDS } from './commands.ts';
import { UsageError } from './exit.ts';
import { boolean } from './flag-kinds.ts';
import { type Flag, type FlagTexts, flag, flagValues } from './flag-table.ts';
import { FLAGS, IGNORED_FLAGS } from './flags.ts';

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

/**
 * Reads a command line as Go's flag package does: one dash or two, `=value` or the next word, a boolean
 * without value. Unlike in Go, flags may follow the command, and some collect the values of all times they are given.
 *
 * @throws {UsageError}
 */
export function parseArgs(argv: readonly string[]): ParsedArgs {
  const { command, operands, flags } = divide(argv);
  const flagTexts = new Map<string, readonly string[]>();
  for (const given of flags) {
    const { name } = given;
    const before = ALL_FLAGS.get(name)?.kind.repeats ? flagTexts.get(name) : undefined;
    flagTexts.set(name, [...(before ?? []), checkedText(given)]);
  }
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
  const words: string[] = [];
  const flags: GivenFlag[] = [];
  const rest = [...argv];
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    if (word === '--') words.push(...rest.splice(0));
    else if (word === '-' || !word.startsWith('-')) words.push(word);
    else flags.push(givenFlag(word, rest));
  }
  const [command = 'run', ...operands] = words;
  return { command, operands, flags };
}

type GivenFlag = ReturnType<typeof givenFlag>;

/**
 * A flag as a command line gives it, right or wrong. Its name is empty if the word cannot be a flag.
 *
 * @param rest the words that follow; the text of the flag is taken from them if it needs one and has none of its own
 */
function givenFlag(word: string, rest: string[]) {
  const [, given = '', inline] = /^--?([^-=][^=]*)(?:=(.*))?$/s.exec(word) ?? [];
  const name = LETTERS.get(given) ?? given;
  const text = inline ?? (takesValue(name) ? rest.shift() : 'true');
  return { word, name, text };
}

function checkedText({ word, name, text }: GivenFlag): string {
  if (name === '') throw new UsageError(`${quote(word)} is not a flag`);
  const takes = takesValue(name);
  if (takes === undefined) throw new UsageError(`unknown flag ${quote(`--${name}`)}: see --help`);
  if (text === undefined || (ALL_FLAGS.get(name)?.kind.needsText && text === ''))
    throw new UsageError(`--${name} needs a value`);
  return text;
}

/** Undefined if there is no such flag. */
function takesValue(name: string): boolean | undefined {
  const flag = ALL_FLAGS.get(name);
  if (flag !== undefined) return flag.kind.placeholder !== '';
  if (Object.hasOwn(ASKED_FLAGS, name)) return false;
  const kind = IGNORED_FLAGS.get(name.replaceAll('-', '_'));
  return kind && kind === 'value';
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
