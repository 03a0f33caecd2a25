import type { Prefix } from '../cidr/prefix.ts';
import type { Located, Origin } from '../text/origin.ts';
import type { Problem } from './problem.ts';

/** Masqueraded packets to a destination leave with the node's address in a range. Both have the same family. */
export interface MasqueradeAddress {
  readonly destination: Prefix;
  readonly range: Prefix;
}

/** What one source says. A key that it does not set is undefined, a list that it does not set is empty. */
export interface SourceConfig {
  readonly source: string;
  /** Where the list of what is inside stands; where the source begins if it has none. */
  readonly insideAt: Origin;
  readonly nonMasqueradeCIDRs: readonly Located<Prefix>[];
  readonly masqueradeCIDRs: readonly Located<Prefix>[];
  readonly masqueradeFromCIDRs: readonly Located<Prefix>[];
  readonly masqueradeAddresses: readonly Located<MasqueradeAddress>[];
  readonly masqLinkLocal: Located<boolean> | undefined;
  readonly masqLinkLocalIPv6: Located<boolean> | undefined;
  /** Milliseconds. */
  readonly resyncInterval: Located<number> | undefined;
}

/** What all sources say together. */
export interface MergedConfig {
  /** Names of the sources, in byte order; none if the defaults apply. */
  readonly sources: readonly string[];
  readonly nonMasqueradeCIDRs: readonly Located<Prefix>[];
  readonly masqueradeCIDRs: readonly Located<Prefix>[];
  /** A family of which none is listed is not limited. */
  readonly masqueradeFromCIDRs: readonly Located<Prefix>[];
  /** Each destination once. */
  readonly masqueradeAddresses: readonly Located<MasqueradeAddress>[];
  readonly masqLinkLocal: Located<boolean>;
  readonly masqLinkLocalIPv6: Located<boolean>;
  /** Milliseconds; undefined if no source sets it. */
  readonly resyncInterval: Located<number> | undefined;
  /** Conflicts, and what the guards have found; the gravest first. */
  readonly conflicts: readonly Problem[];
}

/**
 * Judges a merged config without errors by what it does to addresses.
 *
 * @param lists where each source says what is inside
 */
export type Guard = (config: MergedConfig, lists: readonly Origin[]) => readonly Omit<Problem, 'severity'>[];

/** What the command line decides about reading and merging. */
export interface ConfigOptions {
  readonly enableIPv6: boolean;
  /** Most CIDRs of a source that does not set `cidrLimit`. */
  readonly cidrLimit: number;
  /** Most CIDRs of any source, and of all sources together. */
  readonly cidrLimitMax: number;
  /** Most bytes of all sources together. */
  readonly configLimit: number;
  /** Whether every warning is an error. */
  readonly strict: boolean;
  readonly noMasqAllReservedRanges: boolean;
  /** Names of sources that must be there. */
  readonly requiredSources: readonly string[];
  readonly guard: Guard;
}
