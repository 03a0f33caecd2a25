import { mergeConfigFiles } from '../config/load.ts';
import { formatProblem } from '../config/problem.ts';
import type { Dataplane } from '../dataplane/dataplane.ts';
import type { Logger } from '../log/log.ts';
import type { Notices } from '../log/notices.ts';
import {
  areCompiledFor,
  compilePolicy,
  type Family,
  type OwnAddress,
  type Policy,
} from '../policy/policy.ts';
import type { KeptConfig } from './kept-config.ts';
import type { ReaderOptions } from './reading.ts';
import type { Trigger } from './reasons.ts';
import { type RetryOptions, retrying } from './retry.ts';
import type { Rollout } from './rollout.ts';
import type { Knowledge, ValidConfig } from './state.ts';

/** What the loop works with. */
export interface Loop {
  readonly options: AgentOptions;
  readonly agent: Knowledge;
  readonly notices: Notices;
  readonly signal: AbortSignal;
}

/** A round, as its steps see it. */
export interface Running extends Loop {
  readonly trigger: Trigger;
  /** How it waits for a busy kernel, until its deadline. */
  readonly retry: RetryOptions & { readonly deadline: number };
}

/** What the loop asks of the node. */
export interface AgentOptions {
  readonly reader: ReaderOptions;
  /** Milliseconds that a round may take: until then, a busy kernel is asked again. */
  readonly syncTimeout: number;
  /** Whether the agent goes on while the config is invalid. */
  readonly staysWhileInvalid: boolean;
  readonly rollout: Rollout;
  /** Watches the config directory, unless that is done. */
  readonly watchDirectory: () => void;
  /** The families of which this node certainly has no rules; none if no run keeps its config. */
  readonly familiesWithoutRules: (retry: RetryOptions) => Promise<readonly Family[]>;
  /** The config that an earlier run has kept; undefined if there is none that can be used. */
  readonly readKept: () => Promise<KeptConfig | undefined>;
  /** What an invalid config means for a node for which there is no valid one, as a clause. */
  readonly effectOnNode: () => Promise<string>;
  /**
   * Takes the lock against a second agent, or decides to go on without it.
   *
   * @param deadline until when it waits for another agent to end, in milliseconds of performance.now()
   */
  readonly takeLock: (deadline: number) => Promise<void>;
  /** The dataplane to use now: the same object as long as the node is the same. */
  readonly chooseDataplane: () => Promise<Dataplane>;
  /** The node's addresses now. Asked for only if a config needs them. */
  readonly ownAddresses: () => readonly OwnAddress[];
}

/** The policies of the config: the same objects, if no address of the node that it asks for has changed either. */
export function compile(
  options: AgentOptions,
  agent: Knowledge,
  valid: ValidConfig,
  families: readonly Family[],
): readonly Policy[] {
  const { policies: before, inUse } = agent.state;
  const own = addressesFor(options, valid);
  if (valid === inUse && areCompiledFor(own, before)) return before;
  const policies = families.map((family) => compilePolicy(valid.config, family, own));
  agent.set({ policies, inUse: valid });
  return policies;
}

/** The policies of a config that is perhaps never applied. */
export function policiesOf(options: AgentOptions, valid: ValidConfig): readonly Policy[] {
  const own = addressesFor(options, valid);
  return options.reader.config.families.map((family) => compilePolicy(valid.config, family, own));
}

/** The node's addresses now, if the config needs any. */
function addressesFor({ ownAddresses }: AgentOptions, { config }: ValidConfig): readonly OwnAddress[] {
  return config.masqueradeAddresses.length > 0 ? ownAddresses() : [];
}

export async function chooseDataplane(
  options: AgentOptions,
  agent: Knowledge,
  log: Logger,
): Promise<Dataplane> {
  const dataplane = await options.chooseDataplane();
  if (dataplane === agent.state.dataplane) return dataplane;
  log.info(`using ${dataplane.name}: ${dataplane.reason}`);
  if (dataplane.warning !== undefined) log.warn(dataplane.warning);
  agent.set({ dataplane });
  return dataplane;
}

/** The config that an earlier run has kept; undefined if there is none, or it is not valid with these flags. */
export async function keptConfig({ options, notices, retry }: Running): Promise<ValidConfig | undefined> {
  const kept = await retrying(options.readKept, retry);
  if (kept === undefined) return undefined;
  const { configFiles, since } = kept;
  const { config, ...merged } = mergeConfigFiles(configFiles, options.reader.config);
  if (config !== undefined)
    return { ...merged, config, configFiles, keptSince: since, readProblems: [], projected: false };
  const [first] = merged.problems;
  const text = first === undefined ? '' : formatProblem(first);
  notices.warn('last valid config', [
    `the last valid config, of ${since}, is not valid with these flags: ${text}`,
  ]);
  return undefined;
}
