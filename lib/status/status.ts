import type { ValidConfig } from '../agent/load.ts';
import type { InvalidConfigError } from '../config/invalid-config.ts';
import type { Dataplane } from '../dataplane/dataplane.ts';
import type { AgainstCount } from '../flows/against.ts';
import type { Suspects } from '../foreign/suspects.ts';
import type { VerdictChanges } from '../policy/changes.ts';
import type { Family, Policy } from '../policy/policy.ts';
import type { OutOfSync } from './out-of-sync.ts';

export interface Build {
  readonly version: string;
  readonly commit: string;
  readonly nodejs: string;
}

/** What probes, pages and the command `status` read. */
export interface Status {
  readonly build: Build;
  /** The status of each family that has been synced. */
  readonly families: ReadonlyMap<Family, FamilyStatus>;
  /** The last reading of the config files that had no error. */
  readonly loaded: ValidConfig | undefined;
  /** Its config files that are gone, and until when their last texts apply, as Date.now() says it. */
  readonly vanished: ReadonlyMap<string, number>;
  /** The hash of its config; undefined before there is one. */
  readonly hash: string | undefined;
  /** The errors of the last reading of the config files; undefined if it was valid. */
  readonly invalid: InvalidConfig | undefined;
  /** The dataplane in use; undefined before it is found. */
  readonly dataplane: Dataplane | undefined;
  /** What else does NAT on the node, as the last reading found it; undefined before there is one. */
  readonly suspects: Suspects | undefined;
  /** The last reading of connection tracking; undefined if there is none, or it failed. */
  readonly flows: FlowsStatus | undefined;
  readonly outOfSync: OutOfSync;
}

/** The status of one family. Times are from Date.now(), except `syncedAt`. */
export interface FamilyStatus {
  readonly policy: Policy;
  /** The time of `lastSuccess` by performance.now(), which does not change if the clock is set. */
  readonly syncedAt: number;
  readonly lastSuccess: number;
  readonly lastChange: number | undefined;
  /** How the kernel differed at the last change. */
  readonly lastFound: readonly string[];
  /** The last change after which packets get another verdict. */
  readonly lastVerdicts: (VerdictChanges & { readonly at: number }) | undefined;
}

/** A reading of connection tracking. */
export interface FlowsStatus {
  /** As Date.now() says it. */
  readonly at: number;
  /** The flows against the policy. */
  readonly counts: readonly AgainstCount[];
  readonly examples: readonly string[];
}

/** A reading of the config files with errors. */
export interface InvalidConfig {
  readonly error: InvalidConfigError;
  /** The time of the first such reading after a valid one. */
  readonly since: number;
}
