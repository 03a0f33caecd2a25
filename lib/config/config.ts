import type { Family } from '../cidr/address.ts';
import type { Origin } from '../text/origin.ts';
import type { MergedKeys, ParsedKeys } from './keys.ts';
import type { Limits } from './limits.ts';
import type { Problem } from './problem.ts';

export type { MasqueradeAddress } from './list-key.ts';

export interface FileConfig extends ParsedKeys {
  readonly configFile: string;
  /** Where nonMasqueradeCIDRs is; where the config file begins if it has none. */
  readonly listOrigin: Origin;
}

export interface MergedConfig extends MergedKeys {
  /** Names of the config files, in byte order; none if the defaults apply. */
  readonly configFiles: readonly string[];
  /** Conflicts, and what the checks have found; the gravest first. */
  readonly findings: readonly Problem[];
}

/**
 * Judges a merged config without errors by what it does to addresses.
 *
 * @param listOrigins where nonMasqueradeCIDRs is in each config file
 */
export type Check = (
  config: MergedConfig,
  listOrigins: readonly Origin[],
) => readonly Omit<Problem, 'severity'>[];

/** What the command line decides about reading and merging, its limits among it. */
export interface ConfigOptions extends Limits {
  /** The families for which the agent keeps rules; networks of others are errors. */
  readonly families: readonly Family[];
  /** Whether every warning is an error. */
  readonly strict: boolean;
  readonly noMasqAllReservedRanges: boolean;
  /** Names of config files that must be there. */
  readonly requiredFiles: readonly string[];
  readonly checkVerdicts: Check;
}
