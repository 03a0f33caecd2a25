import assert from 'node:assert/strict';
import { FAMILIES } from '../../../lib/cidr/address.ts';
import type { ConfigOptions, MergedConfig } from '../../../lib/config/config.ts';
import { DEFAULT_LIMITS, MAX_PROBLEMS, maxMarks } from '../../../lib/config/limits.ts';
import { mergeSources } from '../../../lib/config/load.ts';
import { formatProblem } from '../../../lib/config/problem.ts';
import { takeSteps } from '../../../lib/config/steps.ts';
import { validating } from '../../../lib/config/validate.ts';

export const OPTIONS: ConfigOptions = {
  families: FAMILIES,
  ...DEFAULT_LIMITS,
  strict: false,
  noMasqAllReservedRanges: false,
  requiredSources: [],
  guard: () => [],
};

/** What a terminal or a log reader could take for more than text. */
export const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;

/** Validates a source, named `s` where it has no other name. */
export function validate(text: string, options: Partial<ConfigOptions> = {}, name = 's') {
  const all = { ...OPTIONS, ...options };
  const room = { marks: maxMarks(all.cidrLimitMax), problems: MAX_PROBLEMS };
  return takeSteps(validating({ name, text }, all, room));
}

/** The problems of a source named `s`, one line each. */
export function problemLines(text: string, options: Partial<ConfigOptions> = {}): readonly string[] {
  return validate(text, options).problems.map(formatProblem);
}

/** Validates and merges texts by source name, in the order given. */
export function merge(texts: Readonly<Record<string, string>>, options: Partial<ConfigOptions> = {}) {
  const sources = Object.entries(texts).map(([name, text]) => ({ name, text }));
  const { config, problems } = mergeSources(sources, { ...OPTIONS, ...options });
  return { config, problems, lines: problems.map(formatProblem) };
}

/** The config of texts by source name, which must be valid; no text means the defaults. */
export function mergedOf(
  texts: Readonly<Record<string, string>>,
  options: Partial<ConfigOptions> = {},
): MergedConfig {
  const { config, lines } = merge(texts, options);
  assert.ok(config, lines.join('\n'));
  return config;
}
