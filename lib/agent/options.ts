import type { Opened } from '../dataplane/open.ts';
import type { Family, OwnAddress } from '../policy/policy.ts';
import type { LastValid, ReaderOptions } from './load.ts';

export interface AgentOptions {
  readonly loading: ReaderOptions;
  /** `exit`: an invalid config ends the loop. `keep`: not if there is a last valid one, or the node may have rules of the agent. */
  readonly onInvalidConfig: 'exit' | 'keep';
  readonly mayHaveRules: () => Promise<boolean>;
  /** With it, an invalid config at the start does not leave a node without rules that had a valid one before, as after a reboot. */
  readonly lastValid: LastValidSource | undefined;
  /** Milliseconds for which a config file that has vanished keeps its last text. */
  readonly vanishedGraceMs: number;
  /** The node's addresses now. Asked for only if a config needs them. */
  readonly ownAddresses: () => readonly OwnAddress[];
  /** Milliseconds of CPU that this process and its tools have used. */
  readonly cpuTime: () => number;
  /** Milliseconds until a busy kernel is an error. */
  readonly syncTimeout: number;
  /** Takes the lock against a second agent, unless that is decided. Called after the config files are read, before the kernel is touched. */
  readonly lock: () => Promise<void>;
  /**
   * Opens the dataplane. Called after the first valid config.
   *
   * @throws {DataplaneError}
   */
  readonly open: () => Promise<Opened>;
}

export interface LastValidSource {
  readonly read: () => Promise<LastValid | undefined>;
  /** The families without rules of the agent on this node, as far as that is certain. */
  readonly familiesWithoutRules: () => Promise<readonly Family[]>;
}
