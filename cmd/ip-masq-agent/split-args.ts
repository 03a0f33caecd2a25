import { quote } from '../../lib/text/escape.ts';
import { UsageError } from './exit.ts';
import type { Flag, FlagTexts } from './flag-table.ts';

/** The flags that a program accepts. */
export interface KnownFlags {
  readonly flags: ReadonlyMap<string, Flag<unknown>>;
  /** The names of flags by their letters. */
  readonly letters: ReadonlyMap<string, string>;
  /** Whether a flag that is in no table takes a value; undefined if there is no such flag. */
  takesValue(name: string): boolean | undefined;
}

/** The words and the flags of a command line, right or wrong. */
export function splitArgs(argv: readonly string[], known: KnownFlags) {
  const words: string[] = [];
  const flags: GivenFlag[] = [];
  const rest = [...argv];
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    if (word === '--') words.push(...rest.splice(0));
    else if (word === '-' || !word.startsWith('-')) words.push(word);
    else flags.push(givenFlag(word, rest, known));
  }
  return { words, flags };
}

/**
 * What the flags give, by name.
 *
 * @throws {UsageError}
 */
export function flagTextsOf(flags: readonly GivenFlag[], known: KnownFlags): FlagTexts {
  const flagTexts = new Map<string, readonly string[]>();
  for (const given of flags) {
    const { name } = given;
    const before = known.flags.get(name)?.kind.repeats ? flagTexts.get(name) : undefined;
    flagTexts.set(name, [...(before ?? []), checkedText(given, known)]);
  }
  return flagTexts;
}

type GivenFlag = ReturnType<typeof givenFlag>;

/**
 * A flag as a command line gives it, right or wrong. Its name is empty if the word cannot be a flag.
 *
 * @param rest the words that follow; the text of the flag is taken from them if it needs one and has none of its own
 */
function givenFlag(word: string, rest: string[], known: KnownFlags) {
  const [, given = '', inline] = /^--?([^-=][^=]*)(?:=(.*))?$/s.exec(word) ?? [];
  const name = known.letters.get(given) ?? given;
  const text = inline ?? (takesValue(name, known) ? rest.shift() : 'true');
  return { word, name, text };
}

function checkedText({ word, name, text }: GivenFlag, known: KnownFlags): string {
  if (name === '') throw new UsageError(`${quote(word)} is not a flag`);
  const takes = takesValue(name, known);
  if (takes === undefined) throw new UsageError(`unknown flag ${quote(`--${name}`)}: see --help`);
  if (text === undefined || (known.flags.get(name)?.kind.needsText && text === ''))
    throw new UsageError(`--${name} needs a value`);
  return text;
}

/** Undefined if there is no such flag. */
function takesValue(name: string, known: KnownFlags): boolean | undefined {
  const flag = known.flags.get(name);
  return flag === undefined ? known.takesValue(name) : flag.kind.placeholder !== '';
}
