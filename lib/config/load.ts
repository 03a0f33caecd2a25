import { isDeepStrictEqual } from 'node:util';
import { printable } from '../text/escape.ts';
import { counted } from '../text/words.ts';
import type { ConfigOptions, MergedConfig, SourceConfig } from './config.ts';
import { COUNTED_KEYS } from './keys.ts';
import { maxMarks } from './limits.ts';
import { mergeConfigs } from './merge.ts';
import { fileProblem, gravestFirst, KINDS, type Problem, ProblemList, problem } from './problem.ts';
import { readGeneration } from './read.ts';
import type { Source } from './source.ts';
import { type Steps, takeSteps, takeStepsInTurns } from './steps.ts';
import { type Room, type ValidatedSource, validating } from './validate.ts';

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
  /** What each source says by itself, in the same order. */
  readonly validated: readonly ValidatedSource[];
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
  const merged = await takeStepsInTurns(merging(sources, options, unread, last));
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

type Merged = Pick<LoadedConfig, 'config' | 'problems' | 'validated'>;

function* merging(
  sources: readonly Source[],
  options: ConfigOptions,
  readProblems: readonly Problem[],
  last?: LoadedConfig,
): Steps<Merged> {
  const found = new ProblemList(options.strict);
  for (const one of [...readProblems, ...missingSources(sources, options, readProblems)]) found.add(one);
  const configs: SourceConfig[] = [];
  const all: ValidatedSource[] = [];
  let marks = maxMarks(options.cidrLimitMax);
  let listed = 0;
  let excessive: Source | undefined;
  for (const source of sources) {
    const room = { marks, problems: Math.max(1, found.room('error')) };
    const validated = unchanged(source, room, last) ?? (yield* validating(source, options, room));
    all.push(validated);
    marks -= validated.marks;
    for (const one of validated.problems) found.add(one);
    found.addMore('error', validated.more);
    const left = Math.max(0, options.cidrLimitMax - listed);
    listed += validated.listed;
    configs.push(shortened(validated.config, left));
    if (listed > options.cidrLimitMax) excessive ??= source;
    yield;
  }
  if (excessive !== undefined && sources.length > 1) found.add(tooManyListed(listed, excessive, options));
  const conflicts = new ProblemList(options.strict);
  const config = mergeConfigs(configs, options, conflicts);
  found.addAll(conflicts);
  yield;
  // What has an error may lack entries: nothing follows from what it does to addresses.
  const isComplete = found.reported().every(({ kind }) => KINDS[kind].severity !== 'error');
  const lists = configs.map(({ insideAt }) => insideAt);
  const guarded = isComplete ? options.guard(config, lists).map((one) => problem(one.kind, one)) : [];
  for (const one of guarded) found.add(one);
  const problems = found.reported();
  if (problems.some(({ severity }) => severity === 'error'))
    return { config: undefined, problems, validated: all };
  const everything = gravestFirst([...config.conflicts, ...guarded]);
  return { config: { ...config, conflicts: everything }, problems, validated: all };
}

/** What was found in the same text before. With a problem in it, the text is read again: the limits may differ. */
function unchanged(
  { name, text }: Source,
  room: Room,
  last: LoadedConfig | undefined,
): ValidatedSource | undefined {
  const index = last?.sources.findIndex((one) => one.name === name && one.text === text) ?? -1;
  const validated = last?.validated[index];
  return validated?.problems.length === 0 && validated.marks <= room.marks ? validated : undefined;
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
  let left = room;
  const first = <Item>(items: readonly Item[]): readonly Item[] => {
    const kept = items.slice(0, left);
    left -= kept.length;
    return kept;
  };
  return {
    ...config,
    ...Object.fromEntries(COUNTED_KEYS.map((name) => [name, first<unknown>(config[name])])),
  };
}

/** @param source the first that lists more than the sources before it have left */
function tooManyListed(listed: number, source: Source, { cidrLimitMax }: ConfigOptions): Problem {
  const message = `all sources together list ${counted(listed, 'CIDR')}, but may list only ${cidrLimitMax}`;
  const remedy = 'join CIDRs into wider ones, or start the agent with a larger --cidr-limit-max';
  return fileProblem(source.found?.file.name ?? source.name, message, remedy, 'cidr-limit');
}
