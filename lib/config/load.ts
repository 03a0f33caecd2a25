import { isDeepStrictEqual } from 'node:util';
import { printable } from '../text/escape.ts';
import { counted } from '../text/words.ts';
import type { ConfigOptions, MergedConfig } from './config.ts';
import type { ConfigFile } from './config-file.ts';
import { mergeConfigs } from './merge.ts';
import { fileProblem, gravestFirst, KINDS, type Problem, ProblemList, problem } from './problem.ts';
import { readVolumeVersion } from './read.ts';
import { type ValidatedFile, validateFile } from './validate.ts';

/** One reading of the config directory. */
export interface LoadedConfig {
  /** The merged config; undefined if any problem is an error. */
  readonly config: MergedConfig | undefined;
  /**
   * The gravest first: what could not be read; then what is wrong in each config file, from top to bottom; then conflicts. Of
   * very many only the first, and one more problem that says so.
   */
  readonly problems: readonly Problem[];
  readonly configFiles: readonly ConfigFile[];
  /** What could not be read: the first of the problems. */
  readonly readProblems: readonly Problem[];
  /** Whether the directory is, or was, a projected volume. */
  readonly projected: boolean;
  /** What each config file says by itself, in the same order; if there are too many errors, or CIDRs, not all. */
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
  } = await readVolumeVersion(dir, last?.projected ?? false, complete !== undefined);
  const isWhole = readProblems.every(({ severity }) => severity !== 'error');
  const configFiles = isWhole && complete ? complete(found) : found;
  const projected = last?.projected || id !== undefined;
  const isSame = isDeepStrictEqual(
    [configFiles, readProblems, projected],
    [last?.configFiles, last?.readProblems, last?.projected],
  );
  if (isSame && last !== undefined) return last;
  return {
    ...mergeConfigFiles(configFiles, options, readProblems),
    configFiles,
    readProblems,
    projected,
  };
}

/**
 * Validates and merges config files that are already read. They must be in byte order of their names. 1 MiB of
 * texts, as much as a ConfigMap holds, takes at most 0.5 s, in which the agent answers no probe.
 */
export function mergeConfigFiles(
  configFiles: readonly ConfigFile[],
  options: ConfigOptions,
  readProblems: readonly Problem[] = [],
): Pick<LoadedConfig, 'config' | 'problems' | 'validated'> {
  const found = new ProblemList(options);
  for (const one of [...readProblems, ...missingFiles(configFiles, options, readProblems)]) found.add(one);
  const validated: ValidatedFile[] = [];
  let listed = 0;
  for (const configFile of configFiles) {
    // The cost of the other files is bounded too.
    if (listed > options.cidrLimitMax || found.isFull) break;
    const one = validateFile(configFile, options);
    validated.push(one);
    for (const problem of one.problems) found.add(problem);
    listed += one.cidrCount;
    if (listed > options.cidrLimitMax && listed > one.cidrCount)
      found.add(tooManyListed(listed, configFile, options));
  }
  const configs = validated.map(({ config }) => config);
  const conflicts = new ProblemList(options);
  const config = mergeConfigs(configs, options, conflicts);
  for (const one of conflicts.reported()) found.add(one);
  // What has an error may lack entries: nothing follows from what it does to addresses.
  const isComplete = found.reported().every(({ kind }) => KINDS[kind].severity !== 'error');
  const nonMasqueradeOrigins = configs.map(({ nonMasqueradeOrigin }) => nonMasqueradeOrigin);
  const checked = isComplete
    ? options.checkVerdicts(config, nonMasqueradeOrigins).map((one) => problem(one.kind, one))
    : [];
  for (const one of checked) found.add(one);
  const problems = found.reported();
  if (problems.some(({ severity }) => severity === 'error'))
    return { config: undefined, problems, validated };
  // The same object has its policies compiled already.
  if (checked.length === 0) return { config, problems, validated };
  const ofConfig = gravestFirst([...config.problems, ...checked]);
  return { config: { ...config, problems: ofConfig }, problems, validated };
}

/** The names of the config files that set no key. */
export function emptyFilesOf({ validated }: LoadedConfig): readonly string[] {
  return validated.flatMap(({ isEmpty, config }) => (isEmpty ? [config.configFileName] : []));
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
          'restore its ConfigMap or the key that is mounted under this name; if you no longer need it, change the flag',
      }),
    );
}

/** @param configFile the first that lists more than the config files before it have left */
function tooManyListed(listed: number, configFile: ConfigFile, { cidrLimitMax }: ConfigOptions): Problem {
  const message = `the config files up to this one list ${counted(listed, 'CIDR')}, but all together may list only ${cidrLimitMax}`;
  const remedy = 'join CIDRs into wider ones, or start the agent with a larger --cidr-limit-max';
  return fileProblem('cidr-limit', configFile.embeddedIn?.file.name ?? configFile.name, message, remedy);
}
