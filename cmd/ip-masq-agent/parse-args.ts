import { nearest } from '../../lib/config/nearest.ts';
import { quote } from '../../lib/config/shape.ts';
import { UsageError } from './exit.ts';
import { boolean } from './flag-kinds.ts';
import { FLAGS, type FlagName, type FlagValues, IGNORED_FLAGS, isFlagName } from './flags.ts';

export interface ParsedArgs {
  readonly flags: FlagValues;
  /** Flags of klog that were given and do nothing. */
  readonly ignored: readonly string[];
  /** What is no flag: the command, then its arguments. */
  readonly operands: readonly string[];
  readonly help: boolean;
  readonly version: boolean;
}

/**
 * Reads a command line as Go's flag package does: one dash or two, `=value` or the next word, a boolean
 * without value. Unlike there, flags may stand behind the command.
 *
 * @throws {UsageError}
 */
export function parseArgs(argv: readonly string[]): ParsedArgs {
  const texts = new Map<FlagName, string>();
  const ignored: string[] = [];
  const operands: string[] = [];
  const asked = { help: false, version: false };

  for (let index = 0; index < argv.length; index += 1) {
    const word = argv[index] ?? '';
    if (word === '--') {
      operands.push(...argv.slice(index + 1));
      break;
    }
    const match = /^--?([^-=][^=]*)(?:=(.*))?$/s.exec(word);
    if (match === null) {
      if (word.startsWith('-')) throw new UsageError(`${quote(word)} is not a flag`);
      operands.push(word);
      continue;
    }
    const [, name = '', inline] = match;
    const takesValue = valueExpected(name);
    if (takesValue && inline === undefined) index += 1;
    const text = inline ?? (takesValue ? argv[index] : 'true');
    if (text === undefined) throw new UsageError(`--${name} needs a value`);

    if (isFlagName(name)) texts.set(name, text);
    else if (name === 'help' || name === 'h') asked.help = boolean.parse(text);
    else if (name === 'version') asked.version = boolean.parse(text);
    else ignored.push(name);
  }
  return { flags: flagValues(texts), ignored, operands, ...asked };
}

function valueExpected(name: string): boolean {
  if (isFlagName(name)) return FLAGS[name].kind.placeholder !== '';
  if (['help', 'h', 'version'].includes(name)) return false;
  const kind = IGNORED_FLAGS.get(name.replaceAll('-', '_'));
  if (kind === undefined) throw unknownFlag(name);
  return kind === 'value';
}

function unknownFlag(name: string): UsageError {
  const near = nearest(name, Object.keys(FLAGS));
  const hint = near === undefined ? 'see --help' : `did you mean --${near}?`;
  return new UsageError(`unknown flag ${quote(`--${name}`)}: ${hint}`);
}

function flagValues(texts: ReadonlyMap<FlagName, string>): FlagValues {
  const value = <Name extends FlagName>(name: Name): FlagValues[Name] => {
    const { kind, default: preset } = FLAGS[name];
    const text = texts.get(name) ?? preset;
    try {
      return kind.parse(text) as FlagValues[Name];
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      throw new UsageError(`--${name}=${quote(text)} ${error.message}`);
    }
  };
  const names = Object.keys(FLAGS).filter(isFlagName);
  return Object.fromEntries(names.map((name) => [name, value(name)])) as FlagValues;
}
