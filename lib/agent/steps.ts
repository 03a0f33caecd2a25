import type { Dataplane } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Logger } from '../log/log.ts';
import type { Notices } from '../log/notices.ts';
import {
  areCompiledFor,
  compilePolicy,
  type Family,
  type OwnAddress,
  type Policy,
} from '../policy/policy.ts';
import { missing } from './out-of-sync.ts';
import type { ReaderOptions } from './reading.ts';
import type { Trigger } from './reasons.ts';
import type { RetryableError, RetryOptions } from './retry.ts';
import type { Rollout } from './rollout.ts';
import type { EarlierConfig, Knowledge, ValidConfig } from './state.ts';

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
  /** Whether an invalid config does not end the agent. */
  readonly keepsInvalid: boolean;
  readonly rollout: Rollout;
  /** Watches the config directory, unless that is done. */
  readonly watchDirectory: () => void;
  /** The config that an earlier run has kept, if the node has no rules of a family; used until this run reads a valid one. */
  readonly readEarlier: (retry: RetryOptions) => Promise<EarlierConfig | undefined>;
  /** The config that an earlier run has kept, whatever rules the node has. */
  readonly readKept: () => Promise<EarlierConfig | undefined>;
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

/** As if the round had worked for so long: the pause after it is ten times as long. */
const BLOCKED_MS = 200;

/**
 * Takes note that another program's change of the kernel blocks the rules. That mostly passes: the next round, 2 s later, asks again.
 *
 * @throws any other failure
 */
export function noteBlocked(agent: Knowledge, log: Logger, failure: unknown): DataplaneError {
  if (!(failure instanceof DataplaneError) || failure.failure !== 'blocked') throw failure;
  const why = `${failure.message}; the rules stay as they are; ${failure.remedy}`;
  if (agent.state.outOfSync.why !== why) log.error(why);
  const endedAt = performance.now();
  agent.set({
    lastRound: { endedAt, worked: BLOCKED_MS, inSync: false },
    outOfSync: missing(agent.state.outOfSync, why, endedAt),
  });
  return failure;
}

/** How a round waits for a busy kernel, until its deadline. */
export function retryOptions(
  { syncTimeout: timeoutMs }: AgentOptions,
  agent: Knowledge,
  log: Logger,
  signal: AbortSignal,
  count: (failure: RetryableError['failure']) => void,
): RetryOptions & { readonly deadline: number } {
  return {
    timeoutMs,
    deadline: performance.now() + timeoutMs,
    signal,
    onRetry(error, attempt, waited) {
      log.warn({ attempt, failure: error.failure }, `trying again: ${error.message}`);
      count(error.failure);
      // The other one is of the config files, or of the node's addresses.
      if (!(error instanceof DataplaneError)) return;
      const why = `the agent cannot read or write its rules: ${error.message}`;
      agent.set({ outOfSync: missing(agent.state.outOfSync, why, performance.now() - waited) });
    },
  };
}
