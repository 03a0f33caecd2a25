import { isDeepStrictEqual } from 'node:util';
import { printable } from '../text/escape.ts';
import { counted } from '../text/words.ts';
import type { ConfigOptions, MergedConfig, SourceConfig } from './config.ts';
import { maxMarks } from './limits.ts';
import { mergeConfigs } from './merge.ts';
import { gravestFirst, KINDS, type Problem, ProblemList, problem } from './problem.ts';
import { readGeneration } from './read.ts';
import type { Source } from './source.ts';
import { type Steps, takeSteps, takeStepsInTurns } from './steps.ts';
import { validating } from './validate.ts';

/** One reading of the config directory. */
export interface LoadedConfig {
  /** The merged config; undefined if any problem is an error. */
  readonly config: MergedConfig | undefined;
  /**
   * What could not be read; then what is wrong in each source, from top to bottom; then conflicts by gravity. Of very
   * many only the gravest, with one more problem that counts the others.
   */
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
  const {
    id,
    sources,
    problems: unread,
  } = await readGeneration(dir, last?.projected ?? false, options.configLimit);
  const projected = last?.projected || id !== undefined;
  const isSame = isDeepStrictEqual(
    [sources, unread, projected],
    [last?.sources, last?.unread, last?.projected],
  );
  if (isSame && last !== undefined) return last;
  const merged = await takeStepsInTurns(merging(sources, options, unread));
  return { ...merged, sources, unread, projected };
}

/** Validates and merges sources that are already read. The sources must be in byte order of their names. */
export function mergeSources(
  sources: readonly Source[],
  options: ConfigOptions,
  readProblems: readonly Problem[] = [],
): Merged {
  return takeSteps(merging(sources, options, readProblems));
}

type Merged = Pick<LoadedConfig, 'config' | 'problems'>;

function* merging(
  sources: readonly Source[],
  options: ConfigOptions,
  readProblems: readonly Problem[],
): Steps<Merged> {
  const found = new ProblemList(options.strict);
  for (const one of [...readProblems, ...missingSources(sources, options, readProblems)]) found.add(one);
  const configs: SourceConfig[] = [];
  let marks = maxMarks(options.cidrLimitMax);
  let listed = 0;
  let excessive: Source | undefined;
  for (const source of sources) {
    const validated = yield* validating(source, options, {
      marks,
      problems: Math.max(1, found.room('error')),
    });
    marks -= validated.marks;
    for (const one of validated.problems) found.add(one);
    found.addMore('error', validated.more);
    const room = Math.max(0, options.cidrLimitMax - listed);
    listed += validated.listed;
    configs.push(shortened(validated.config, room));
    if (listed > options.cidrLimitMax) excessive ??= source;
    yield;
  }
  if (excessive !== undefined && sources.length > 1) found.add(tooManyListed(listed, excessive, options));
  const conflicts = new ProblemList(options.strict);
  const config = mergeConfigs(configs, options.noMasqAllReservedRanges, conflicts);
  found.addAll(conflicts);
  yield;
  // What has an error may lack entries: nothing follows from what it does to addresses.
  const isComplete = found.reported().every(({ kind }) => KINDS[kind].severity !== 'error');
  const lists = configs.map(({ insideAt }) => insideAt);
  const guarded = isComplete ? options.guard(config, lists).map((one) => problem(one.kind, one)) : [];
  for (const one of guarded) found.add(one);
  const problems = found.reported();
  if (problems.some(({ severity }) => severity === 'error')) return { config: undefined, problems };
  return { config: { ...config, conflicts: gravestFirst([...config.conflicts, ...guarded]) }, problems };
}

/** None if something could not be read: it may be what is missed. */
function missingSources(
  sources: readonly Source[],
  { requiredSources }: ConfigOptions,
  readProblems: readonly Problem[],
): readonly Problem[] {
  if (readProblems.some(({ severity }) => severity === 'error')) return [];
  const names = new Set(sources.map(({ name }) => name));
  return requiredSources
    .filter((name) => !names.has(name))
    .map((name) =>
      problem('missing-source', {
        message: `the source ${printable(name)} is not there, but --require-source names it`,
        remedy:
          'restore its ConfigMap or the key that is mounted under this name; if it is to go, change the flag',
      }),
    );
}

/** The config with at most so many CIDRs, so that conflicts between them are found at a bounded cost. */
function shortened(config: SourceConfig, room: number): SourceConfig {
  const nonMasqueradeCIDRs = config.nonMasqueradeCIDRs.slice(0, room);
  const masqueradeCIDRs = config.masqueradeCIDRs.slice(0, room - nonMasqueradeCIDRs.length);
  return { ...config, nonMasqueradeCIDRs, masqueradeCIDRs };
}

/** @param source the first that lists more than the sources before it have left */
function tooManyListed(listed: number, source: Source, { cidrLimitMax }: ConfigOptions): Problem {
  return problem('cidr-limit', {
    at: { kind: 'whole-file', source: source.found?.file.name ?? source.name },
    message: `all sources together list ${counted(listed, 'CIDR')}, but may list only ${cidrLimitMax}`,
    remedy: 'join CIDRs into wider ones, or start the agent with a larger --cidr-limit-max',
  });
}
