import { quote } from '../../lib/text/escape.ts';
import { UsageError } from './exit.ts';
import { type FlagTable, type FlagTexts, flagValues, type Values } from './flag-table.ts';
import { checkGiven, checkTogether, FLAGS, type FlagName, type FlagValues } from './flags.ts';
import { complain } from './print.ts';

export interface CommandLine {
  /** The words that are not flags, without the command. */
  readonly operands: readonly string[];
  readonly flagTexts: FlagTexts;
  /** Flags of klog on the command line; they have no effect. */
  readonly ignored: readonly string[];
}

/** A command line that is to be run. */
interface Call extends CommandLine {
  /**
   * Reads another command line.
   *
   * @throws {UsageError}
   */
  readonly parse: (argv: readonly string[]) => CommandLine;
}

/** The input of a command: the command line, in its texts also the flags of a running agent, and what the texts say. */
export interface Args<Own extends FlagTable = Readonly<Record<never, never>>> extends Call {
  readonly flags: FlagValues & Values<Own>;
}

/** The description of a command, for the parser, help and documentation. */
interface Description {
  /** One line for the list of commands. */
  readonly summary: string;
  /** More text for the help of the command. */
  readonly details?: string;
  /** The operands as the help shows them: `[PATH…]` for any number, `ADDRESS…` for at least one; absent for none. */
  readonly operands?: '[PATH…]' | 'ADDRESS…' | '[COMMAND]' | 'COMMAND [FILE] [ADDRESS…]';
  /** The flags of the daemon that the command uses. */
  readonly uses?: readonly FlagName[];
  /** What command lines mean, by their words after `ip-masq-agent`. */
  readonly examples: Readonly<Record<string, string>>;
}

export interface Command extends Description {
  readonly own: FlagTable;
  /**
   * Runs the command; returns the exit code.
   *
   * @throws {UsageError} before the command does anything
   */
  run(line: Call): Promise<number>;
}

interface Definition<Own extends FlagTable> extends Description {
  readonly own: Own;
  /** Whether flags that are not given are those of the agent that runs on this node. */
  readonly asksAgent?: (flags: Values<Own>, operands: readonly string[]) => boolean;
  /** Imports the code of the command, so that other commands do not load it. */
  readonly load: () => Promise<(args: Args<Own>) => Promise<number>>;
}

export function command<Own extends FlagTable>(definition: Definition<Own>): Command {
  const { load, asksAgent, ...description } = definition;
  const { own, uses = [] } = description;
  return {
    ...description,
    async run(line) {
      // What is wrong by itself is said before the agent is asked.
      checkGiven(flagValues(FLAGS, line.flagTexts));
      let { flagTexts } = line;
      let notes: readonly string[] = [];
      if (asksAgent?.(flagValues(own, flagTexts), line.operands) === true) {
        const { withAgentFlags } = await import('./agent-flags.ts');
        ({ flagTexts, notes } = await withAgentFlags(flagTexts, uses));
      }
      try {
        const flags = { ...flagValues(FLAGS, flagTexts), ...flagValues(own, flagTexts) };
        checkTogether(flags);
        const work = await load();
        return await work({ ...line, flags, flagTexts });
      } catch (error) {
        // Where they come from does not matter then.
        if (error instanceof UsageError) notes = [];
        throw error;
      } finally {
        notes.forEach(complain);
      }
    },
  };
}

export type Commands = Readonly<Record<string, Command>>;

/**
 * The command of that name.
 *
 * @throws {UsageError} if there is none
 */
export function commandNamed(name: string, commands: Commands): Command {
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command !== undefined) return command;
  throw new UsageError(`unknown command ${quote(name)}: see --help`);
}
