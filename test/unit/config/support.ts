import assert from 'node:assert/strict';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ValidConfig } from '../../../lib/agent/state.ts';
import { FAMILIES } from '../../../lib/cidr/address.ts';
import type { ConfigOptions, MergedConfig } from '../../../lib/config/config.ts';
import { DEFAULT_LIMITS } from '../../../lib/config/limits.ts';
import { mergeConfigFiles } from '../../../lib/config/load.ts';
import { formatProblem, type Problem } from '../../../lib/config/problem.ts';
import { validateFile } from '../../../lib/config/validate.ts';
import {
  type Files,
  ProjectedVolume,
  type TemporaryDirectory,
  temporaryDirectory,
} from '../../lab/volume.ts';

export const OPTIONS: ConfigOptions = {
  families: FAMILIES,
  ...DEFAULT_LIMITS,
  strict: false,
  noMasqAllReservedRanges: false,
  requiredFiles: [],
  checkVerdicts: () => [],
};

/** What a terminal or a log reader could take for more than text. */
export const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;

/** Validates a config file, named `s` where it has no other name. */
export function validate(text: string, options: Partial<ConfigOptions> = {}, name = 's') {
  const all = { ...OPTIONS, ...options };
  return validateFile({ name, text }, all);
}

/** The problems of a config file named `s`, one line each. */
export function problemLines(text: string, options: Partial<ConfigOptions> = {}): readonly string[] {
  return validate(text, options).problems.map(formatProblem);
}

/** Validates and merges texts by config file name, in the order given. */
export function merge(texts: Readonly<Record<string, string>>, options: Partial<ConfigOptions> = {}) {
  const configFiles = Object.entries(texts).map(([name, text]) => ({ name, text }));
  const { config, problems } = mergeConfigFiles(configFiles, { ...OPTIONS, ...options });
  return { config, problems, lines: problems.map(formatProblem) };
}

/** A config as the agent has loaded it. */
export function loadedOf(config: MergedConfig, problems: readonly Problem[] = []): ValidConfig {
  return { config, problems, configFiles: [], readProblems: [], projected: true, validated: [] };
}

/** The config of texts by config file name, which must be valid; no text means the defaults. */
export function mergedOf(
  texts: Readonly<Record<string, string>>,
  options: Partial<ConfigOptions> = {},
): MergedConfig {
  const { config, lines } = merge(texts, options);
  assert.ok(config, lines.join('\n'));
  return config;
}

export function kindsOf(problems: readonly Problem[]): readonly string[] {
  return problems.map(({ kind }) => kind);
}

/** The severity and the kind of each problem. */
export function gravityOf(problems: readonly Problem[]): readonly string[] {
  return problems.map(({ severity, kind }) => `${severity} ${kind}`);
}

export function namesOf(configFiles: readonly { readonly name: string }[]): readonly string[] {
  return configFiles.map(({ name }) => name);
}

/** A plain config directory with these files, beside which there is nothing. */
export async function directoryOf(files: Files): Promise<TemporaryDirectory> {
  const outer = await temporaryDirectory();
  const path = join(outer.path, 'config');
  await mkdir(path);
  await chmod(path, 0o755);
  for (const [name, content] of Object.entries(files)) await writeFile(join(path, name), content);
  return { path, [Symbol.asyncDispose]: outer[Symbol.asyncDispose] };
}

/** A projected volume with these files, beside which there is nothing. */
export async function volumeOf(
  files: Files,
): Promise<TemporaryDirectory & { readonly volume: ProjectedVolume }> {
  const outer = await temporaryDirectory();
  const path = join(outer.path, 'config');
  const volume = await ProjectedVolume.create(path, files);
  return { path, volume, [Symbol.asyncDispose]: outer[Symbol.asyncDispose] };
}
