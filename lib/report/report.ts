import type { MergedConfig } from '../config/config.ts';
import type { ConfigFile } from '../config/config-file.ts';
import { type Problem, problem, type Severity, sentence } from '../config/problem.ts';
import { failedExpectations, type GivenAssertion } from '../policy/checks.ts';
import { printable } from '../text/escape.ts';

/** What `check` has found, whatever the format in which it is reported. */
export interface CheckReport {
  readonly problems: readonly Problem[];
  /** The merged config; undefined if any problem is an error. */
  readonly config: MergedConfig | undefined;
  readonly configFiles: readonly ConfigFile[];
  /** The manifests that problems may point into. */
  readonly manifests?: readonly ConfigFile[];
  /** The file that says what is expected, and how many expectations it has. */
  readonly expected?: { readonly file: ConfigFile; readonly count: number };
}

/** The report with what is not as a file of expectations says; the same if the config has an error. */
export function withExpectations(
  report: CheckReport,
  { file, expectations }: { readonly file: ConfigFile; readonly expectations: readonly GivenAssertion[] },
): CheckReport {
  const failed = report.config === undefined ? [] : failedExpectations(report.config, expectations);
  return {
    ...report,
    problems: [...report.problems, ...failed.map((one) => problem(one.kind, one))],
    expected: { file, count: expectations.length },
  };
}

export function summarize(problems: readonly Problem[]) {
  const count = (wanted: Severity) => problems.filter(({ severity }) => severity === wanted).length;
  return { errors: count('error'), warnings: count('warning'), infos: count('info') };
}

/** The problem in one printable line as in the agent's log, but without its location and severity. */
export function printedSentence(problem: Problem): string {
  return printable(sentence(problem));
}

/** The name of the file in which people find it; undefined if it is in none. May be hostile. */
export function fileOf(at: Problem['at']): string | undefined {
  switch (at?.kind) {
    case 'file':
      return at.file ?? at.configFile;
    case 'whole-file':
      return at.file;
    case 'built-in':
    case undefined:
      return undefined;
  }
}
