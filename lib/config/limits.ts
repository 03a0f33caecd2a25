/**
 * Limits for what config files may hold: whatever they say, a reading takes bounded time and memory. What is beyond a limit is
 * an error like any other. It ends the agent by default and leaves the rules; with --on-invalid-config=keep the agent goes on.
 */

/** Most bytes of a config file, as in a ConfigMap. */
export const MAX_BYTES = 2 ** 20;

/** Most config files: each costs system calls, even if it is empty. */
export const MAX_CONFIG_FILES = 1000;

/** Most problems that are reported: each takes memory and lines in the log. */
export const MAX_PROBLEMS = 100;

/** The limits that flags can change. */
export const DEFAULT_LIMITS = {
  /** CIDRs of a config file that does not set `cidrLimit`, as in the Go agents. */
  cidrLimit: 64,
  /** CIDRs of any config file and of all together, which fit the memory limit of the manifest. */
  cidrLimitMax: 1000,
};

export type Limits = Readonly<typeof DEFAULT_LIMITS>;

/** Most lines of a config file: a million, which 1 MiB may have, would block the event loop for longer than 0.1 s. */
export const MAX_LINES = 100_000;

/**
 * Most marks of a config file; see `countIndicators`. There is one for each key and each CIDR, and some in comments.
 * The parser keeps events for each, and its time grows with them.
 */
export function maxIndicators(cidrLimitMax: number): number {
  return 4_000 + 4 * cidrLimitMax;
}

export interface YamlLimits {
  /** Levels of nesting: each takes a part of the stack. */
  readonly depth: number;
  /** Aliases: a few can multiply a text. */
  readonly aliases: number;
  /** Characters of a key or value: one of many lines is joined piece by piece. */
  readonly scalar: number;
  /** Whether it is for another program, so that tags and line breaks that the agent does not use are ignored. */
  readonly forOthers: boolean;
  /** Whether kubectl reads it, so that keys are text, each once, and merge keys are not followed here. */
  readonly isManifest: boolean;
}

/** A config file is two levels deep, and its longest value is an IPv6 network. */
export const CONFIG_FILE_LIMITS: YamlLimits = {
  depth: 16,
  aliases: 100,
  scalar: 1024,
  forOthers: false,
  isManifest: false,
};

/** A value in a manifest may be a whole config file, and a CustomResourceDefinition in the same file nests far deeper. */
export const MANIFEST_LIMITS: YamlLimits = {
  depth: 256,
  aliases: 1000,
  scalar: Number.POSITIVE_INFINITY,
  forOthers: true,
  isManifest: false,
};

export const OWN_MANIFEST_LIMITS: YamlLimits = { ...MANIFEST_LIMITS, forOthers: false, isManifest: true };
