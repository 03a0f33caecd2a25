import { isDeepStrictEqual } from 'node:util';
import { printable } from '../text/escape.ts';
import { counted } from '../text/words.ts';
import type { ConfigOptions, MergedConfig, ParsedConfig } from './config.ts';
import type { ConfigFile } from './config-file.ts';
import { LIMITED_KEYS } from './keys.ts';
import { maxIndicators } from './limits.ts';
import { mergeConfigs } from './merge.ts';
import { fileProblem, gravestFirst, KINDS, type Problem, ProblemList, problem } from './problem.ts';
import { readVolumeVersion } from './read.ts';
import { type Quota, type ValidatedFile, validateFile } from './validate.ts';

/** One reading of the config directory. */
export interface LoadedConfig {
  /** The merged config; undefined if any problem is an error. */
  readonly config: MergedConfig | undefined;
  /**
   * What could not be read; then what is wrong in each config file, from top to bottom; then conflicts by gravity. Of very
   * many only the gravest, with one more problem that counts the others.
   */
  readonly problems: readonly Problem[];
  readonly configFiles: readonly ConfigFile[];
  /** What could not be read: the first of the problems. */
  readonly readProblems: readonly Problem[];
  /** Whether the directory is, or was, a projected volume. */
  readonly projected: boolean;
  /** What each config file says by itself, in the same order. */
  readonly validated: readonly ValidatedFile[];
}

/**
 * Reads, validates and merges every config file in the directory.
 *
 * @param last what the last call returned: if nothing has changed since, the same object is returned again
 * @param complete adds config files that count too, although they are not there; not called if something could not be read. It
 * is for an agent, which also waits until a plain directory is quiet
 */
export async function loadConfig(
  dir: string,
  options: ConfigOptions,
  last?: LoadedConfig,
  complete?: (configFiles: readonly ConfigFile[]) => readonly ConfigFile[],
): Promise<LoadedConfig> {
  const {
    id,
    configFiles: found,
    problems: readProblems,
  } = await readVolumeVersion(dir, last?.projected ?? false, options.configLimit, complete !== undefined);
  const isWhole = readProblems.every(({ severity }) => severity !== 'error');
  const configFiles = isWhole && complete ? complete(found) : found;
  const projected = last?.projected || id !== undefined;
  const isSame = isDeepStrictEqual(
    [configFiles, readProblems, projected],
    [last?.configFiles, last?.readProblems, last?.projected],
  );
  if (isSame && last !== undefined) return last;
  return {
    ...mergeConfigFiles(configFiles, options, readProblems, last),
    configFiles,
    readProblems,
    projected,
  };
}

/**
 * Validates and merges config files that are already read. They must be in byte order of their names. Within the default
 * limits, no texts take longer than 0.1 s, in which the agent answers no probe.
 */
export function mergeConfigFiles(
  configFiles: readonly ConfigFile[],
  options: ConfigOptions,
  readProblems: readonly Problem[] = [],
  last?: LoadedConfig,
): Pick<LoadedConfig, 'config' | 'problems' | 'validated'> {
  const found = new ProblemList(options);
  for (const one of [...readProblems, ...missingFiles(configFiles, options, readProblems)]) found.add(one);
  const configs: ParsedConfig[] = [];
  const all: ValidatedFile[] = [];
  let indicators = maxIndicators(options.cidrLimitMax);
  let listed = 0;
  let excessive: ConfigFile | undefined;
  for (const configFile of configFiles) {
    const quota = { indicators, problems: Math.max(1, found.remaining('error')) };
    const validated = unchanged(configFile, quota, last) ?? validateFile(configFile, options, quota);
    all.push(validated);
    indicators -= validated.indicators;
    for (const one of validated.problems) found.add(one);
    found.addOmitted('error', validated.omittedErrors);
    const left = Math.max(0, options.cidrLimitMax - listed);
    listed += validated.cidrCount;
    configs.push(withAtMost(validated.config, left));
    if (listed > options.cidrLimitMax) excessive ??= configFile;
  }
  if (excessive !== undefined && configFiles.length > 1) found.add(tooManyListed(listed, excessive, options));
  const conflicts = new ProblemList(options);
  const config = mergeConfigs(configs, options, conflicts);
  found.addAll(conflicts);
  // What has an error may lack entries: nothing follows from what it does to addresses.
  const isComplete = found.reported().every(({ kind }) => KINDS[kind].severity !== 'error');
  const nonMasqueradeOrigins = configs.map(({ nonMasqueradeOrigin }) => nonMasqueradeOrigin);
  const checked = isComplete
    ? options.checkVerdicts(config, nonMasqueradeOrigins).map((one) => problem(one.kind, one))
    : [];
  for (const one of checked) found.add(one);
  const problems = found.reported();
  if (problems.some(({ severity }) => severity === 'error'))
    return { config: undefined, problems, validated: all };
  const ofConfig = gravestFirst([...config.problems, ...checked]);
  return { config: { ...config, problems: ofConfig }, problems, validated: all };
}

/** The names of the config files that set no key. */
export function emptyFilesOf({ validated }: LoadedConfig): readonly string[] {
  return validated.flatMap(({ isEmpty, config }) => (isEmpty ? [config.configFileName] : []));
}

/** What was found in the same text before. With a problem in it, the text is read again: the limits may differ. */
function unchanged(
  { name, text }: ConfigFile,
  quota: Quota,
  last: LoadedConfig | undefined,
): ValidatedFile | undefined {
  const index = last?.configFiles.findIndex((one) => one.name === name && one.text === text) ?? -1;
  const validated = last?.validated[index];
  return validated?.problems.length === 0 && validated.indicators <= quota.indicators ? validated : undefined;
}

/** None if something could not be read: it may be what is missed. */
function missingFiles(
  configFiles: readonly ConfigFile[],
  { requiredFiles }: ConfigOptions,
  readProblems: readonly Problem[],
): readonly Problem[] {
  if (readProblems.some(({ severity }) => severity === 'error')) return [];
  const names = new Set(configFiles.map(({ name }) => name));
  return requiredFiles
    .filter((name) => !names.has(name))
    .map((name) =>
      problem('missing-config-file', {
        message: `the config file ${printable(name)} is not there, but --require-file names it`,
        remedy:
          'restore its ConfigMap or the key that is mounted under this name; if it is to go, change the flag',
      }),
    );
}

/** The config with at most so many CIDRs, so that conflicts between them are found at a bounded cost. */
function withAtMost(config: ParsedConfig, most: number): ParsedConfig {
  let left = most;
  const first = <Item>(items: readonly Item[]): readonly Item[] => {
    const kept = items.slice(0, left);
    left -= kept.length;
    return kept;
  };
  return {
    ...config,
    ...Object.fromEntries(LIMITED_KEYS.map((name) => [name, first<unknown>(config[name])])),
  };
}

/** @param configFile the first that lists more than the config files before it have left */
function tooManyListed(listed: number, configFile: ConfigFile, { cidrLimitMax }: ConfigOptions): Problem {
  const message = `all config files together list ${counted(listed, 'CIDR')}, but may list only ${cidrLimitMax}`;
  const remedy = 'join CIDRs into wider ones, or start the agent with a larger --cidr-limit-max';
  return fileProblem('cidr-limit', configFile.embeddedIn?.file.name ?? configFile.name, message, remedy);
}
