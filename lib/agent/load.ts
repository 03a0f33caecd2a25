import { isDeepStrictEqual } from 'node:util';
import type { ConfigOptions, MergedConfig } from '../config/config.ts';
import { type LoadedConfig, loadConfig } from '../config/load.ts';
import { mayBeVolume } from '../config/read.ts';
import type { Logger } from '../log/log.ts';
import { logConfig } from './log-changes.ts';

/** The options for reading the sources. */
export interface SourcesOptions {
  readonly configDir: string;
  readonly config: ConfigOptions;
  /** Milliseconds between two readings, if no source says otherwise. */
  readonly resyncInterval: number;
}

/** A reading of the sources without errors. */
export interface ValidConfig extends LoadedConfig {
  readonly config: MergedConfig;
}

/**
 * Reads the sources. If the result has changed, logs the config and its problems.
 *
 * @param last the result of the last call, which is returned again if no source has changed
 */
export async function read(
  { configDir, config: options }: SourcesOptions,
  last: LoadedConfig | undefined,
  log: Logger,
): Promise<LoadedConfig> {
  const loaded = await loadConfig(configDir, options, last);
  const { config, problems } = loaded;
  if (!isDeepStrictEqual([config, problems], [last?.config, last?.problems]))
    logConfig(log, loaded, mayBeVolume(configDir));
  return loaded;
}

/** Whether a reading has no error. */
export function isValid(loaded: LoadedConfig): loaded is ValidConfig {
  return loaded.config !== undefined;
}

/** Milliseconds until the sources are read again without a change. */
export function resyncInterval({ config }: ValidConfig, options: SourcesOptions): number {
  return config.resyncInterval?.value ?? options.resyncInterval;
}
