import { quote } from '../../lib/text/escape.ts';
import { nearest } from '../../lib/text/nearest.ts';
import { type CommandLine, commandNamed } from './command.ts';
import { COMMANDS } from './commands.ts';
import { UsageError } from './exit.ts';
import { boolean } from './flag-kinds.ts';
import { type Flag, flag, flagValues } from './flag-table.ts';
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
  const flagTexts = new Map<string, string>();
  const words: string[] = [];
  const rest = [...argv];
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    if (word === '--') words.push(...rest.splice(0));
    else if (word === '-' || !word.startsWith('-')) words.push(word);
    else readFlag(word, rest, flagTexts);
  }
  const [command = 'run', ...operands] = words;
  const { h, help, version } = flagValues(ASKED_FLAGS, flagTexts);
  if (help || h) commandNamed(command, COMMANDS);
  else if (!version) checkCommandLine(command, operands, flagTexts);
  const ignored = [...flagTexts.keys()].filter(
    (name) => !ALL_FLAGS.has(name) && !Object.hasOwn(ASKED_FLAGS, name),
  );
  return { command, operands, flagTexts, ignored, help: help || h, version };
}

/** Adds the text of a flag; takes it from the words that follow if the flag needs one and has none of its own. */
function readFlag(word: string, rest: string[], flagTexts: Map<string, string>): void {
  const [, given, inline] = /^--?([^-=][^=]*)(?:=(.*))?$/s.exec(word) ?? [];
  if (given === undefined) throw new UsageError(`${quote(word)} is not a flag`);
  const name = LETTERS.get(given) ?? given;
  const { repeats, needsText } = ALL_FLAGS.get(name)?.kind ?? {};
  const takesValue = valueExpected(name);
  const [next] = rest;
  if (!takesValue && inline === undefined && /^(?:true|false)$/i.test(next ?? ''))
    throw new UsageError(
      `${word} takes no value behind a space, but got ${quote(next ?? '')}: write ${word}=${next}`,
    );
  const text = inline ?? (takesValue ? rest.shift() : 'true');
  if (text === undefined || (needsText && text === '')) throw new UsageError(`--${name} needs a value`);
  const before = repeats ? flagTexts.get(name) : undefined;
  flagTexts.set(name, before === undefined ? text : `${before}\0${text}`);
}

function checkCommandLine(
  name: string,
  operands: readonly string[],
  flagTexts: ReadonlyMap<string, string>,
): void {
  const { operands: wanted = '', own } = commandNamed(name, COMMANDS);
  const [first] = operands;
  if (wanted === '' && first !== undefined)
    throw new UsageError(`${name} takes no arguments, but got ${quote(first)}`);
  if (/^[^[]/.test(wanted) && first === undefined)
    throw new UsageError(`${name} needs an argument: see ${name} --help`);
  if (!wanted.includes('…') && operands.length > 1)
    throw new UsageError(`${name} takes one argument, but got ${quote(operands[1] ?? '')} too`);
  for (const given of flagTexts.keys()) {
    const foreign = ALL_FLAGS.has(given) && !Object.hasOwn(FLAGS, given) && !Object.hasOwn(own, given);
    if (foreign) throw new UsageError(`${name} does not take --${given}: see ${name} --help`);
  }
}

function valueExpected(name: string): boolean {
  const flag = ALL_FLAGS.get(name);
  if (flag !== undefined) return flag.kind.placeholder !== '';
  if (Object.hasOwn(ASKED_FLAGS, name)) return false;
  const kind = IGNORED_FLAGS.get(name.replaceAll('-', '_'));
  if (kind !== undefined) return kind === 'value';
  const near = nearest(name, [...ALL_FLAGS.keys()]);
  const hint = near === undefined ? 'see --help' : `did you mean --${near}?`;
  throw new UsageError(`unknown flag ${quote(`--${name}`)}: ${hint}`);
}
