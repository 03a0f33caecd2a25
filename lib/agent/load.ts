import { isDeepStrictEqual } from 'node:util';
import type { ConfigOptions, MergedConfig } from '../config/config.ts';
import type { ConfigFile } from '../config/config-file.ts';
import { InvalidConfigError } from '../config/invalid-config.ts';
import { type LoadedConfig, mergeConfigFiles } from '../config/load.ts';
import { formatProblem } from '../config/problem.ts';
import { mayBeVolume } from '../config/read.ts';
import type { Logger } from '../log/log.ts';
import { logConfig } from './log-changes.ts';
import { VanishedFiles } from './vanished.ts';

/** Milliseconds after the end of a grace. */
const SOON_MS = 100;

export interface ReaderOptions {
  readonly configDir: string;
  readonly config: ConfigOptions;
  /** Milliseconds between two readings, if no config file says otherwise. */
  readonly resyncInterval: number;
}

export interface ValidConfig extends LoadedConfig {
  readonly config: MergedConfig;
}

/**
 * What does not change while an invalid config is waited for, as a clause; undefined if it is an error.
 *
 * @param valid the last reading without errors, if there is one
 */
type Keep = (valid: ValidConfig | undefined) => Promise<string | undefined>;

/** The last valid config of an earlier run of the agent on this node. */
export interface State {
  readonly configFiles: readonly ConfigFile[];
  /** Since when the agent has had it, as in RFC 3339. */
  readonly since: string;
  /** When those of its files were first missed that had vanished, as Date.now() says it. */
  readonly missedAt: ReadonlyMap<string, number>;
}

export interface RestoredConfig extends ValidConfig {
  readonly since: string;
}

export interface LoadObserver {
  /** @param vanished the config files that are gone, and count until a time as Date.now() says it */
  onLoad(loaded: ValidConfig, vanished: ReadonlyMap<string, number>): void;
  onInvalidConfig(error: InvalidConfigError): void;
}

/** What `createReader` needs beside the options, which are those of the command line. */
interface Reading {
  /** Undefined if an invalid config is always an error. */
  readonly keep?: Keep | undefined;
  /** The last valid config of an earlier run. */
  readonly state?: (() => Promise<State | undefined>) | undefined;
  /** Milliseconds for which a config file that has vanished keeps its last text. */
  readonly graceMs?: number;
}

/** Reads the config files again and again, and tells what has changed. */
export function createReader(
  loading: ReaderOptions,
  { keep, state: readState, graceMs = 0 }: Reading,
  observer: LoadObserver,
  log: Logger,
) {
  const { configDir, config: options } = loading;
  let last: LoadedConfig | undefined;
  let valid: ValidConfig | undefined;
  let restored: RestoredConfig | undefined;
  let vanished: VanishedFiles | undefined;
  return {
    /** What was restored; undefined once the config files have been valid. */
    get restored(): RestoredConfig | undefined {
      return restored;
    },
    /** The last reading without errors, or else what was restored; undefined if there is neither. */
    get valid(): ValidConfig | undefined {
      return valid;
    },
    /** The config files that are gone, and when each was first missed. */
    get missedAt(): ReadonlyMap<string, number> {
      return vanished?.missedAt ?? new Map();
    },
    /** Milliseconds until the config files are to be read again without a change. */
    get interval(): number {
      const usual = valid === undefined ? loading.resyncInterval : resyncInterval(valid, loading);
      const now = Date.now();
      const ends = [...(vanished?.endsAt.values() ?? [])].filter((at) => at > now);
      return Math.min(usual, ...ends.map((at) => at - now + SOON_MS));
    },
    /**
     * Reads the config files. If the result has changed, logs the config and its problems.
     *
     * @returns the reading; undefined if it has errors, and a valid one is waited for
     * @throws {InvalidConfigError} if it has errors otherwise
     */
    async read(): Promise<ValidConfig | undefined> {
      const before = last;
      const state = before === undefined ? await readState?.() : undefined;
      vanished ??= new VanishedFiles(graceMs, state?.missedAt, log);
      const lastFiles = valid?.configFiles ?? state?.configFiles ?? [];
      const reading = await vanished.load(configDir, options, before, lastFiles);
      last = reading;
      if (!isDeepStrictEqual([reading.config, reading.problems], [before?.config, before?.problems]))
        logConfig(log, reading, mayBeVolume(configDir));
      if (isValid(reading)) {
        if (before !== undefined && !isValid(before)) log.info('the config is valid again');
        valid = reading;
        restored = undefined;
        observer.onLoad(reading, vanished.endsAt);
        return reading;
      }
      const error = new InvalidConfigError(reading.problems, reading.configFiles);
      if (state !== undefined) {
        valid = restored = restore(state, options, log);
        if (restored !== undefined) observer.onLoad(restored, vanished.endsAt);
      }
      observer.onInvalidConfig(error);
      const kept = await keep?.(valid);
      if (kept === undefined) throw error;
      if (reading !== before) log.error(`${error.message}; ${kept}`);
      return undefined;
    },
  };
}

/** The config of an earlier run; undefined if it is not valid with these flags. */
function restore(
  { configFiles, since }: State,
  options: ConfigOptions,
  log: Logger,
): RestoredConfig | undefined {
  const { config, ...merged } = mergeConfigFiles(configFiles, options);
  if (config !== undefined)
    return { ...merged, config, since, configFiles, readProblems: [], projected: false };
  const [first] = merged.problems;
  const text = first === undefined ? '' : formatProblem(first);
  log.warn(`the last valid config, of ${since}, is not valid with these flags: ${text}`);
  return undefined;
}

/** Keeps the last valid config; before there is one, the node as it is, if it has rules to keep. */
export function keepDecision(hasRulesToKeep: () => Promise<boolean>): Keep {
  return async (valid) => {
    if (valid !== undefined)
      return `the last valid config${sinceOf(valid)} stays in use until it is valid again`;
    return (await hasRulesToKeep()) ? 'nothing on this node changes until the config is valid' : undefined;
  };
}

function sinceOf(valid: ValidConfig | RestoredConfig): string {
  return 'since' in valid ? `, of ${valid.since},` : '';
}

function isValid(loaded: LoadedConfig): loaded is ValidConfig {
  return loaded.config !== undefined;
}

/** Milliseconds until the config files are read again without a change. */
export function resyncInterval({ config }: ValidConfig, options: ReaderOptions): number {
  return config.resyncInterval?.value ?? options.resyncInterval;
}
