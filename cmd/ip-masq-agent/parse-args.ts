import { nearest } from '../../lib/config/nearest.ts';
import { quote } from '../../lib/config/shape.ts';
import type { Command, CommandLine } from './command.ts';
import { COMMANDS } from './commands.ts';
import { UsageError } from './exit.ts';
import { boolean } from './flag-kinds.ts';
import type { Flag } from './flag-table.ts';
import { FLAGS, IGNORED_FLAGS } from './flags.ts';

export interface ParsedArgs extends CommandLine {
  /** `run` where none is named. */
  readonly command: string;
  readonly help: boolean;
  readonly version: boolean;
}

/** Every flag of every command. Flags of one name take a value in all commands, or in none. */
const ALL_FLAGS: ReadonlyMap<string, Flag<unknown>> = new Map(
  [FLAGS, ...Object.values(COMMANDS).map(({ own }) => own)].flatMap((table) => Object.entries(table)),
);

const ASKED = ['help', 'h', 'version'];

/**
 * Reads a command line as Go's flag package does: one dash or two, `=value` or the next word, a boolean
 * without value. Unlike there, flags may stand behind the command.
 *
 * @throws {UsageError}
 */
export function parseArgs(argv: readonly string[]): ParsedArgs {
  const texts = new Map<string, string>();
  const words: string[] = [];
  for (let index = 0; index < argv.length; index += 1) {
    const word = argv[index] ?? '';
    if (word === '--') {
      words.push(...argv.slice(index + 1));
      break;
    }
    const match = /^--?([^-=][^=]*)(?:=(.*))?$/s.exec(word);
    if (match === null) {
      if (word.startsWith('-') && word !== '-') throw new UsageError(`${quote(word)} is not a flag`);
      words.push(word);
      continue;
    }
    const [, name = '', inline] = match;
    const takesValue = valueExpected(name);
    if (takesValue && inline === undefined) index += 1;
    const text = inline ?? (takesValue ? argv[index] : 'true');
    if (text === undefined) throw new UsageError(`--${name} needs a value`);
    texts.set(name, text);
  }
  const [command = 'run', ...operands] = words;
  const asked = (...names: readonly string[]) =>
    names.some((name) => boolean.parse(texts.get(name) ?? 'false'));
  const [help, version] = [asked('help', 'h'), asked('version')];
  if (!help && !version) checkCommandLine(command, operands, texts);
  const ignored = [...texts.keys()].filter((name) => !ALL_FLAGS.has(name) && !ASKED.includes(name));
  return { command, operands, texts, ignored, help, version };
}

/**
 * The command of that name.
 *
 * @throws {UsageError} where there is none
 */
export function commandNamed(name: string): Command {
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (command !== undefined) return command;
  const near = nearest(name, Object.keys(COMMANDS));
  const hint = near === undefined ? 'see --help' : `did you mean ${near}?`;
  throw new UsageError(
    `unknown command ${quote(name)}: ${hint} (a boolean flag takes its value as --flag=false)`,
  );
}

function checkCommandLine(
  name: string,
  operands: readonly string[],
  texts: ReadonlyMap<string, string>,
): void {
  const { operands: wanted, own } = commandNamed(name);
  const [first] = operands;
  if (wanted === '' && first !== undefined)
    throw new UsageError(`${name} takes no arguments, but got ${quote(first)}`);
  if (['ADDRESS…', 'SHELL'].includes(wanted) && first === undefined)
    throw new UsageError(`${name} needs an argument: see ${name} --help`);
  if (!wanted.includes('…') && operands.length > 1)
    throw new UsageError(`${name} takes one argument, but got ${quote(operands[1] ?? '')} too`);
  for (const flag of texts.keys()) {
    const foreign = ALL_FLAGS.has(flag) && !Object.hasOwn(FLAGS, flag) && !Object.hasOwn(own, flag);
    if (foreign) throw new UsageError(`${name} does not take --${flag}: see ${name} --help`);
  }
}

function valueExpected(name: string): boolean {
  const flag = ALL_FLAGS.get(name);
  if (flag !== undefined) return flag.kind.placeholder !== '';
  if (ASKED.includes(name)) return false;
  const kind = IGNORED_FLAGS.get(name.replaceAll('-', '_'));
  if (kind === undefined) throw unknownFlag(name);
  return kind === 'value';
}

function unknownFlag(name: string): UsageError {
  const near = nearest(name, [...ALL_FLAGS.keys()]);
  const hint = near === undefined ? 'see --help' : `did you mean --${near}?`;
  return new UsageError(`unknown flag ${quote(`--${name}`)}: ${hint}`);
}
