import type { Dataplane } from '../dataplane/dataplane.ts';
import type { Notices } from '../log/notices.ts';
import type { Family, OwnAddress } from '../policy/policy.ts';
import type { KeptConfig } from './kept-config.ts';
import type { ReaderOptions } from './reading.ts';
import type { Trigger } from './reasons.ts';
import type { RetryOptions } from './retry.ts';
import type { Rollout } from './rollout.ts';
import type { Knowledge } from './state.ts';

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
