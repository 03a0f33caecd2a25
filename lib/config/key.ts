import type { Family } from '../cidr/address.ts';
import type { Located, Origin } from '../text/origin.ts';
import type { ProblemKind } from './problem.ts';
import type { Node } from './yaml.ts';

export type Schema = Readonly<Record<string, unknown>>;

/** What differs from key to key of one kind. A key is in all outputs if it is set, and this says otherwise. */
export interface KeyTraits {
  /** For the schema and the documentation. */
  readonly title: string;
  readonly description: string;
  readonly examples?: readonly unknown[];
  /** Whether a config file that is written for other programs has it also if it is not set. */
  readonly isAlwaysWritten?: boolean;
  /** The only family that it is about: it is not written if the agent keeps no rules for that. */
  readonly family?: Family;
  /** Whether the log names it when a config is read. */
  readonly logged?: boolean;
  /**
   * What ip-masq-agent v1 and v2, Cilium and win-bridge do because they do not know it; absent if nothing goes wrong, or if a config
   * file can be written without it.
   */
  readonly otherAgentsDo?: string;
}

/**
 * One key of a config file, from its text to the outputs. It takes whole configs, and reads only its own value in them.
 *
 * @typeParam Kind the name of what the key has in common with others
 * @typeParam Parsed what one config file says
 * @typeParam Merged what all config files say together
 */
export interface Key<Name extends string, Kind extends string, Parsed, Merged> extends KeyTraits {
  readonly name: Name;
  readonly kind: Kind;
  /** The schema of its value in a config file, without title, description and examples. */
  readonly schema: Schema;
  /** The keys of an item that is a map; none if no item is one. */
  readonly itemKeys: readonly string[];
  /** The schemas of its properties in JSON outputs. */
  readonly jsonSchema: Readonly<Record<string, Schema>>;
  /** What to write instead of a value, or of an item, of the wrong shape. */
  remedy(isItem: boolean, isEmpty: boolean): string;
  /** Takes the value from the YAML; what the schema refuses is left out without a report. */
  parse(node: Node | undefined, context: ParseContext): Parsed;
  /** Joins what the config files say, in their order; without any, the default. */
  merge(configs: readonly Having<Name, Parsed>[]): Merged;
  /** Where it is set to something else than its default; undefined if it is not. */
  setAt(config: Having<Name, Merged>): Origin | undefined;
  /** Its properties in JSON outputs. */
  json(config: Having<Name, Merged>): Readonly<Record<string, unknown>>;
  /** Its lines in a config file, each value with its origin as a comment. */
  lines(config: Having<Name, Merged>): readonly string[];
  /** Its value in the log: short. */
  logValue(config: Having<Name, Merged>): unknown;
  /** Its value without origins, to hash. */
  plainValue(config: Having<Name, Merged>): unknown;
}

/** A config, as far as it concerns one key. */
type Having<Name extends string, Value> = Readonly<Record<Name, Value>>;

export interface ParseContext {
  readonly families: readonly Family[];
  readonly report: NoteProblem;
  located<Value>(value: Value, node: Node): Located<Value>;
}

/** Notes a problem with what stands at the offset. */
export type NoteProblem = (
  kind: ProblemKind,
  at: { readonly offset: number },
  message: string,
  remedy: string,
  other?: Node,
) => void;
