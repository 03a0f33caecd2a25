import { isDeepStrictEqual } from 'node:util';
import type { ConfigOptions, MergedConfig } from './config.ts';
import { mergeConfigs } from './merge.ts';
import { type Problem, strictly } from './problem.ts';
import { readGeneration } from './read.ts';
import type { Source } from './source.ts';
import { validateSource } from './validate.ts';

/** One reading of the config directory. */
export interface LoadedConfig {
  /** The merged config; undefined if any problem is an error. */
  readonly config: MergedConfig | undefined;
  /** What could not be read; then what is wrong in each source, from top to bottom; then conflicts by gravity. */
  readonly problems: readonly Problem[];
  readonly sources: readonly Source[];
  /** What could not be read: the first of the problems. */
  readonly unread: readonly Problem[];
  /** Whether the directory is, or was, a projected volume. */
  readonly projected: boolean;
}

/**
 * Reads, validates and merges every source in the directory.
 *
 * @param last what the last call returned: if nothing has changed since, the same object is returned again
 */
export async function loadConfig(
  dir: string,
  options: ConfigOptions,
  last?: LoadedConfig,
): Promise<LoadedConfig> {
  const { id, sources, problems: unread } = await readGeneration(dir, last?.projected ?? false);
  const projected = last?.projected || id !== undefined;
  const isSame = isDeepStrictEqual(
    [sources, unread, projected],
    [last?.sources, last?.unread, last?.projected],
  );
  if (isSame && last !== undefined) return last;
  return { ...mergeSources(sources, options, unread), sources, unread, projected };
}

/** Validates and merges sources that are already read. The sources must be in byte order of their names. */
export function mergeSources(
  sources: readonly Source[],
  options: ConfigOptions,
  readProblems: readonly Problem[] = [],
): Pick<LoadedConfig, 'config' | 'problems'> {
  const validated = sources.map((source) => validateSource(source, options));
  const config = mergeConfigs(
    validated.map((source) => source.config),
    options.noMasqAllReservedRanges,
  );
  const found = [...readProblems, ...validated.flatMap(({ problems }) => problems), ...config.conflicts];
  const problems = options.strict ? found.map(strictly) : found;
  const failed = problems.some(({ severity }) => severity === 'error');
  return { config: failed ? undefined : config, problems };
}
