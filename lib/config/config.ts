import type { Prefix } from '../cidr/prefix.ts';
import type { Located } from '../text/origin.ts';
import type { Problem } from './problem.ts';

/** What one source says. A key that it does not set is undefined, a list that it does not set is empty. */
export interface SourceConfig {
  readonly source: string;
  readonly nonMasqueradeCIDRs: readonly Located<Prefix>[];
  readonly masqueradeCIDRs: readonly Located<Prefix>[];
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
  readonly masqLinkLocal: Located<boolean>;
  readonly masqLinkLocalIPv6: Located<boolean>;
  /** Milliseconds; undefined if no source sets it. */
  readonly resyncInterval: Located<number> | undefined;
  readonly conflicts: readonly Problem[];
}

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
}
