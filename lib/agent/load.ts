import { isDeepStrictEqual } from 'node:util';
import type { ConfigOptions, MergedConfig } from '../config/config.ts';
import { InvalidConfigError } from '../config/invalid-config.ts';
import { type LoadedConfig, loadConfig } from '../config/load.ts';
import { mayBeVolume } from '../config/read.ts';
import type { Logger } from '../log/log.ts';
import { logConfig } from './log-changes.ts';

export interface LoadOptions {
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

export interface LoadObserver {
  onLoad(loaded: ValidConfig): void;
  onInvalidConfig(error: InvalidConfigError): void;
}

/**
 * Reads the config files again and again, and tells what has changed.
 *
 * @param keep undefined if an invalid config is always an error
 */
export function createReader(
  { configDir, config: options }: LoadOptions,
  keep: Keep | undefined,
  observer: LoadObserver,
  log: Logger,
) {
  let last: LoadedConfig | undefined;
  let valid: ValidConfig | undefined;
  return {
    /** The last reading without errors; undefined if there is none yet. */
    get valid(): ValidConfig | undefined {
      return valid;
    },
    /**
     * Reads the config files. If the result has changed, logs the config and its problems.
     *
     * @returns the reading; undefined if it has errors, and a valid one is waited for
     * @throws {InvalidConfigError} if it has errors otherwise
     */
    async read(): Promise<ValidConfig | undefined> {
      const before = last;
      const reading = await loadConfig(configDir, options, before, true);
      last = reading;
      if (!isDeepStrictEqual([reading.config, reading.problems], [before?.config, before?.problems]))
        logConfig(log, reading, mayBeVolume(configDir));
      if (isValid(reading)) {
        if (before !== undefined && !isValid(before)) log.info('the config is valid again');
        valid = reading;
        observer.onLoad(reading);
        return reading;
      }
      const error = new InvalidConfigError(reading.problems, reading.configFiles);
      observer.onInvalidConfig(error);
      const kept = await keep?.(valid);
      if (kept === undefined) throw error;
      if (reading !== before) log.error(`${error.message}; ${kept}`);
      return undefined;
    },
  };
}

/** Keeps the last valid config; before there is one, the node as it is, if it has rules to keep. */
export function keepDecision(hasRulesToKeep: () => Promise<boolean>): Keep {
  return async (valid) => {
    if (valid !== undefined) return 'the last valid config stays in use until it is valid again';
    return (await hasRulesToKeep()) ? 'nothing on this node changes until the config is valid' : undefined;
  };
}

function isValid(loaded: LoadedConfig): loaded is ValidConfig {
  return loaded.config !== undefined;
}

/** Milliseconds until the config files are read again without a change. */
export function resyncInterval({ config }: ValidConfig, options: LoadOptions): number {
  return config.resyncInterval?.value ?? options.resyncInterval;
}
