import { quote } from '../../lib/text/escape.ts';
import { nearest } from '../../lib/text/nearest.ts';
import { UsageError } from './exit.ts';
import type { FlagTable, Values } from './flag-table.ts';
import { flagValues } from './flag-table.ts';
import { FLAGS, type FlagName, type FlagValues } from './flags.ts';

/** A command line, taken apart. */
export interface CommandLine {
  /** What is no flag, without the command itself. */
  readonly operands: readonly string[];
  /** What the command line gives for flags, by name. */
  readonly texts: ReadonlyMap<string, string>;
  /** Flags of klog that were given and do nothing. */
  readonly ignored: readonly string[];
}

/** What a command gets to work with. */
export interface Args<Own extends FlagTable = Readonly<Record<never, never>>> {
  readonly flags: FlagValues & Values<Own>;
  readonly operands: readonly string[];
  readonly ignored: readonly string[];
}

/** What there is to know about a command before it runs: for the parser, help, completion and README. */
export interface Description {
  /** One line for the list of commands. */
  readonly summary: string;
  /** More, where the summary leaves something open. */
  readonly details?: string;
  /** How its operands are written: `[PATH…]` for any number, `ADDRESS…` for at least one; empty for none. */
  readonly operands: '' | '[PATH…]' | 'ADDRESS…' | 'SHELL' | '[COMMAND]';
  /** Flags of the daemon that make a difference here. */
  readonly uses: readonly FlagName[];
  readonly examples: readonly Example[];
}

/** A command line that somebody may want to use. */
export interface Example {
  /** What stands behind `ip-masq-agent`. */
  readonly line: string;
  readonly meaning: string;
}

/** A command: what it is, and what it does. */
export interface Command extends Description {
  /** Flags that no other command needs to know. */
  readonly own: FlagTable;
  /**
   * Does it; returns the exit code.
   *
   * @throws {UsageError} before anything is done
   */
  run(line: CommandLine): Promise<number>;
}

/** @param load imports the code of the command, which is not needed for any other */
export function command<Own extends FlagTable>(
  description: Description & {
    readonly own: Own;
    readonly load: () => Promise<(args: Args<Own>) => Promise<number>>;
  },
): Command {
  const { load, ...rest } = description;
  return {
    ...rest,
    async run({ operands, texts, ignored }) {
      const flags = { ...flagValues(FLAGS, texts), ...flagValues(description.own, texts) };
      const work = await load();
      return work({ flags, operands, ignored });
    },
  };
}

/** Every command by name. */
export type Commands = Readonly<Record<string, Command>>;

/**
 * The command of that name.
 *
 * @throws {UsageError} if there is none
 */
export function commandNamed(name: string, commands: Commands): Command {
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command !== undefined) return command;
  const near = nearest(name, Object.keys(commands));
  const hint = near === undefined ? 'see --help' : `did you mean ${near}?`;
  throw new UsageError(
    `unknown command ${quote(name)}: ${hint} (a boolean flag takes its value as --flag=false)`,
  );
}
