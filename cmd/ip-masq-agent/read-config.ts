import type { ConfigOptions, MergedConfig } from '../../lib/config/config.ts';
import { InvalidConfigError } from '../../lib/config/invalid-config.ts';
import { mergeConfigFiles } from '../../lib/config/load.ts';
import { formatProblem } from '../../lib/config/problem.ts';
import { readVolumeVersion } from '../../lib/config/read.ts';
import { type AllInputs, readInputs, sameNames } from '../../lib/inputs/input.ts';
import type { CheckReport } from '../../lib/report/report.ts';
import { printable } from '../../lib/text/escape.ts';
import { truncated, truncatedText } from '../../lib/text/words.ts';
import type { INPUT_FLAGS } from './command-flags.ts';
import { UsageError } from './exit.ts';
import type { Values } from './flag-table.ts';
import type { FlagValues } from './flags.ts';
import { configOptions } from './from-flags.ts';
import { complain, print } from './print.ts';

type InputFlags = FlagValues & Values<typeof INPUT_FLAGS>;

/**
 * What the config files say together that are in --filename, or else in --config-dir.
 *
 * @param forPeople whether standard output is for people: it then begins with a line if the defaults apply
 * @throws {InvalidConfigError | UsageError}
 */
export async function readConfig(flags: InputFlags, { forPeople = false } = {}): Promise<MergedConfig> {
  const { config, problems, configFiles, manifests = [] } = await readReport(flags, flags.filename);
  if (config === undefined) throw new InvalidConfigError(problems, [...configFiles, ...manifests]);
  noteDefaults(config, flags, forPeople);
  return config;
}

/** The config or, if it is invalid, the error: for commands that then still say what the kernel does. */
export async function orInvalid(
  reading: Promise<MergedConfig>,
): Promise<{ readonly config?: MergedConfig; readonly error?: InvalidConfigError }> {
  try {
    return { config: await reading };
  } catch (error) {
    if (!(error instanceof InvalidConfigError)) throw error;
    return { error };
  }
}

/** How many errors are told beside what the kernel does. */
const MOST_ERRORS = 10;

/** The error for programs, as a field beside what the kernel does; no field if the config is valid. */
export function errorJson(error: InvalidConfigError | undefined): { readonly error?: string } {
  if (error === undefined) return {};
  return { error: [error.message, ...truncated(error.problems, MOST_ERRORS, formatProblem)].join('\n') };
}

/**
 * Reads, validates and merges what the paths hold, as if one agent read it all.
 *
 * @throws {UsageError}
 */
export async function readReport(flags: InputFlags, paths: readonly string[]): Promise<CheckReport> {
  const inputs = await readPaths(flags, paths);
  const names = inputs.agents.map(({ name }) => name);
  if (names.length > 0)
    complain(
      `note: this command merges all config files as those of one agent. It uses the flags of its own command line, not the arguments of ${truncatedText(names, MOST_NAMED, (name) => name)}; check looks at each agent by itself`,
    );
  return reportOf(inputs, configOptions(flags));
}

const MOST_NAMED = 3;

/** The report of all config files as one config. */
export function reportOf(inputs: AllInputs, options: ConfigOptions): CheckReport {
  const { configFiles, manifests } = inputs;
  return { configFiles, manifests, ...mergeInputs(inputs, options) };
}

/**
 * What the paths hold; without paths, what --config-dir holds.
 *
 * @throws {UsageError}
 */
export async function readPaths(flags: InputFlags, paths: readonly string[]): Promise<AllInputs> {
  const { 'config-dir': configDir, recursive } = flags;
  if (paths.length > 0) return await readInputs(paths, () => process.stdin, recursive);
  if (recursive) throw new UsageError('--recursive needs a directory: see --filename');
  return { ...(await readVolumeVersion(configDir, false)), manifests: [], agents: [] };
}

/** The config files as one config. */
export function mergeInputs(
  { configFiles, problems }: Pick<AllInputs, 'configFiles' | 'problems'>,
  options: ConfigOptions,
) {
  return mergeConfigFiles(configFiles, options, [...problems, ...sameNames(configFiles)]);
}

/** Says that the defaults apply, if they do: on standard error if standard output is for programs. */
export function noteDefaults({ configFileNames }: MergedConfig, flags: FlagValues, forPeople: boolean): void {
  if (configFileNames.length > 0) return;
  const note = `no config file in ${flags['config-dir']}: the defaults apply`;
  if (forPeople) print(`${printable(note)}\n`);
  else complain(`note: ${note}`);
}
