import type { MergedConfig } from '../../lib/config/config.ts';
import { InvalidConfigError } from '../../lib/config/invalid-config.ts';
import { loadConfig } from '../../lib/config/load.ts';
import type { FlagValues } from './flags.ts';
import { configOptions } from './from-flags.ts';

/**
 * The merged config of the sources in --config-dir.
 *
 * @throws {InvalidConfigError}
 */
export async function readConfig(flags: FlagValues): Promise<MergedConfig> {
  const { config, problems, sources } = await loadConfig(flags['config-dir'], configOptions(flags));
  if (config === undefined) throw new InvalidConfigError(problems, sources);
  return config;
}
