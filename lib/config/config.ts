import type { Family } from '../cidr/address.ts';
import type { Origin } from '../text/origin.ts';
import type { MergedKeys, ParsedKeys } from './keys.ts';
import type { Limits } from './limits.ts';
import type { Problem } from './problem.ts';

/** What one config file says. */
export interface ParsedConfig extends ParsedKeys {
  readonly configFileName: string;
  /** Where nonMasqueradeCIDRs is; where the config file begins if it has none. */
  readonly nonMasqueradeOrigin: Origin;
}

export interface MergedConfig extends MergedKeys {
  /** In byte order; none if the defaults apply. */
  readonly configFileNames: readonly string[];
  /** Conflicts, and what the checks have found: none of them an error in a config that is in use. The gravest first. */
  readonly problems: readonly Problem[];
}

/**
 * Judges a merged config without errors by what it does to addresses.
 *
 * @param nonMasqueradeOrigins where a problem about what is not listed is shown: `nonMasqueradeOrigin` of each config file, in the order
 * of `configFileNames`
 */
export type Check = (
  config: MergedConfig,
  nonMasqueradeOrigins: readonly Origin[],
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
