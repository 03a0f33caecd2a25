import { isDeepStrictEqual } from 'node:util';
import type { ConfigOptions, MergedConfig } from '../config/config.ts';
import type { ConfigFile } from '../config/config-file.ts';
import { InvalidConfigError } from '../config/invalid-config.ts';
import { type LoadedConfig, mergeConfigFiles } from '../config/load.ts';
import { formatProblem } from '../config/problem.ts';
import { mayBeVolume } from '../config/read.ts';
import type { Logger } from '../log/log.ts';
import type { Family } from '../policy/policy.ts';
import { logConfig } from './log-changes.ts';
import { now, VanishedFiles } from './vanished.ts';

/** Milliseconds after the end of a grace. */
const SOON_MS = 100;

export interface ReaderOptions {
  readonly configDir: string;
  readonly config: ConfigOptions;
  /** Milliseconds between two readings, if no config file says otherwise. */
  readonly resyncInterval: number;
  /** Undefined if an invalid config is always an error. */
  readonly keep?: Keep | undefined;
  /** The last valid config of an earlier run, if the node has no rules of a family. Asked for only if the config is invalid. */
  readonly readLastValid?: (() => Promise<LastValid | undefined>) | undefined;
  /** Milliseconds for which a config file that has vanished keeps its last text. */
  readonly graceMs?: number;
}

export interface ValidConfig extends LoadedConfig {
  readonly config: MergedConfig;
  /** Undefined if this run has read it. */
  readonly earlier?: LastValid;
}

/** What does not change while an invalid config is waited for, as a clause; undefined if it is an error. */
type Keep = (lastValid: ValidConfig | undefined) => Promise<string | undefined>;

/** The last valid config of an earlier run of the agent on this node. */
export interface LastValid {
  readonly configFiles: readonly ConfigFile[];
  /** When it was written, as in RFC 3339. */
  readonly since: string;
  /** The families of which this node certainly has no rules. */
  readonly families: readonly Family[];
}

export interface LoadObserver {
  /** @param vanished as `VanishedFiles.endsAt` */
  onLoad(loaded: ValidConfig, vanished: ReadonlyMap<string, number>): void;
  onInvalidConfig(error: InvalidConfigError): void;
}

/** Reads the config files again and again, and tells what has changed. */
export function createReader(
  { configDir, config: options, resyncInterval, keep, readLastValid, graceMs = 0 }: ReaderOptions,
  observer: LoadObserver,
  log: Logger,
) {
  /** The last reading, valid or not. */
  let last: LoadedConfig | undefined;
  let lastValid: ValidConfig | undefined;
  const vanished = new VanishedFiles(graceMs, log);
  let readAt = 0;

  const useEarlier = async (): Promise<void> => {
    const earlier = await readLastValid?.();
    lastValid = earlier && restore(earlier, options, log);
    if (lastValid !== undefined) observer.onLoad(lastValid, vanished.endsAt);
  };

  return {
    /** The last reading without errors, or else the last valid config of an earlier run; undefined if there is neither. */
    get lastValid(): ValidConfig | undefined {
      return lastValid;
    },
    /** Milliseconds from the last reading of the config files until the next one without a change. */
    get interval(): number {
      const usual = lastValid?.config.resyncInterval?.value ?? resyncInterval;
      const ends = [...vanished.endsAt.values()].filter((at) => at > readAt);
      return Math.min(usual, ...ends.map((at) => at - readAt + SOON_MS));
    },
    /**
     * Reads the config files. If the result has changed, logs the config and its problems.
     *
     * @returns the reading; undefined if it has errors, and a valid one is waited for
     * @throws {InvalidConfigError} if it has errors otherwise
     */
    async read(): Promise<ValidConfig | undefined> {
      readAt = now();
      const before = last;
      // After a restart, what is not there is not there.
      const own = lastValid?.earlier === undefined ? lastValid : undefined;
      const reading = await vanished.load(configDir, options, before, own);
      last = reading;
      if (!isDeepStrictEqual([reading.config, reading.problems], [before?.config, before?.problems]))
        logConfig(log, reading, mayBeVolume(configDir));
      if (isValid(reading)) {
        if (before !== undefined && !isValid(before)) log.info('the config is valid again');
        lastValid = reading;
        observer.onLoad(reading, vanished.endsAt);
        return reading;
      }
      const error = new InvalidConfigError(reading.problems, reading.configFiles);
      if (lastValid === undefined) await useEarlier();
      observer.onInvalidConfig(error);
      const kept = await keep?.(lastValid);
      if (kept === undefined) throw error;
      if (reading !== before) log.error(`${error.message}; ${kept}`);
      return undefined;
    },
  };
}

/** The config of an earlier run; undefined if it is not valid with these flags. */
function restore(earlier: LastValid, options: ConfigOptions, log: Logger): ValidConfig | undefined {
  const { configFiles, since } = earlier;
  const { config, ...merged } = mergeConfigFiles(configFiles, options);
  if (config !== undefined)
    return { ...merged, config, earlier, configFiles, readProblems: [], projected: false };
  const [first] = merged.problems;
  const text = first === undefined ? '' : formatProblem(first);
  log.warn(`the last valid config, of ${since}, is not valid with these flags: ${text}`);
  return undefined;
}

/** Keeps the last valid config; before there is one, the node as it is, if it may have rules of the agent. */
export function keepConfigOrRules(mayHaveRules: () => Promise<boolean>): Keep {
  return async (lastValid) => {
    if (lastValid !== undefined) {
      const { earlier } = lastValid;
      const since = earlier === undefined ? '' : `, of ${earlier.since},`;
      return `the last valid config${since} stays in use until it is valid again`;
    }
    return (await mayHaveRules()) ? 'nothing on this node changes until the config is valid' : undefined;
  };
}

function isValid(loaded: LoadedConfig): loaded is ValidConfig {
  return loaded.config !== undefined;
}
