import { isDeepStrictEqual } from 'node:util';
import type { ConfigOptions, MergedConfig } from '../config/config.ts';
import { InvalidConfigError } from '../config/invalid-config.ts';
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
 * @throws {InvalidConfigError}
 */
export async function load(
  { configDir, config: options }: SourcesOptions,
  last: ValidConfig | undefined,
  log: Logger,
): Promise<ValidConfig> {
  const loaded = await loadConfig(configDir, options, last);
  if (last !== undefined && loaded === last) return last;
  const { config, problems, sources } = loaded;
  if (!isDeepStrictEqual([config, problems], [last?.config, last?.problems]))
    logConfig(log, loaded, mayBeVolume(configDir));
  if (config === undefined) throw new InvalidConfigError(problems, sources);
  return { ...loaded, config };
}

/** Milliseconds until the sources are read again without a change. */
export function resyncInterval({ config }: ValidConfig, options: SourcesOptions): number {
  return config.resyncInterval?.value ?? options.resyncInterval;
}
