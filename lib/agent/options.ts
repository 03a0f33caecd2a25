import type { ChooseDataplane } from '../dataplane/open.ts';
import type { OwnAddress } from '../policy/policy.ts';
import type { ReaderOptions } from './load.ts';

export interface AgentOptions {
  /** How the config files are read, and when an invalid config does not end the loop. */
  readonly reader: ReaderOptions;
  /** The node's addresses now. Asked for only if a config needs them. */
  readonly ownAddresses: () => readonly OwnAddress[];
  /** Milliseconds until a busy kernel is an error. */
  readonly syncTimeout: number;
  /** Takes the lock against a second agent, unless that is decided. Called after the config files are read, before the kernel is touched. */
  readonly lock: () => Promise<void>;
  /** Called at each sync, after the config files are read. */
  readonly chooseDataplane: ChooseDataplane;
}
