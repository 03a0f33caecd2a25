import { quote } from '../../lib/text/escape.ts';
import { UsageError } from './exit.ts';
import type { FlagKind } from './flag-kinds.ts';

export interface Flag<Value> {
  readonly kind: FlagKind<Value>;
  /** The default as text on the command line. */
  readonly default: string;
  readonly help: string;
  /** A letter that is another name of the flag. */
  readonly short?: string;
}

/** Flags by name, without dashes. */
export type FlagTable = Readonly<Record<string, Flag<unknown>>>;

/** What a command line gives for flags, by name: one text, or one for each time if the flag repeats. */
export type FlagTexts = ReadonlyMap<string, readonly string[]>;

/** The values of the flags of a table, by name. */
export type Values<Table extends FlagTable> = {
  readonly [Name in keyof Table]: Table[Name] extends Flag<infer Value> ? Value : never;
};

/** A flag whose default is `value`. */
export function flag<Value>(kind: FlagKind<Value>, value: string, help: string, short?: string): Flag<Value> {
  return { kind, default: value, help, ...(short !== undefined && { short }) };
}

/** The names of a flag as people write them, the short one first. */
export function spellings(name: string, { short }: Flag<unknown>): readonly string[] {
  return [...(short === undefined ? [] : [`-${short}`]), `--${name}`];
}

/**
 * The values of all flags of the table.
 *
 * @param given by the command line; a flag that is not given has its default
 * @throws {UsageError}
 */
export function flagValues<Table extends FlagTable>(table: Table, given: FlagTexts): Values<Table> {
  const values = Object.entries(table).map(([name, { kind, default: preset }]) => {
    const texts = given.get(name) ?? [preset];
    try {
      return [name, kind.parse(...texts)];
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      throw new UsageError(`--${name}=${quote(texts.join(','))} ${error.message}`);
    }
  });
  return Object.fromEntries(values) as Values<Table>;
}
