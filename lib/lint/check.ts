import type { ConfigOptions } from '../config/config.ts';
import { mergeSources } from '../config/load.ts';
import { readInputs } from './input.ts';
import type { CheckReport } from './report.ts';

/**
 * Validates and merges what the paths hold, as if it were all mounted on one node.
 *
 * @param paths config directories, config files, manifests, or `-` for standard input
 */
export async function checkPaths(
  paths: readonly string[],
  options: ConfigOptions,
  stdin: () => AsyncIterable<Buffer>,
): Promise<CheckReport> {
  const { sources, texts, problems } = await readInputs(paths, stdin);
  return { ...mergeSources(sources, options, problems), sources, texts };
}
