import { readExpectFile } from '../../lib/inputs/expectations.ts';
import { githubReport } from '../../lib/report/github.ts';
import { jsonReport } from '../../lib/report/json.ts';
import { mergedText } from '../../lib/report/merged-text.ts';
import { type CheckReport, withExpectations } from '../../lib/report/report.ts';
import { sarifReport } from '../../lib/report/sarif.ts';
import { textReport } from '../../lib/report/text-report.ts';
import { buildInfo } from './build-info.ts';
import type { Args } from './command.ts';
import type { CHECK_FLAGS, CHECK_FORMATS } from './command-flags.ts';
import { EXIT, UsageError } from './exit.ts';
import { configOptions, keptFamilies } from './from-flags.ts';
import { print, STDOUT, wantsColour } from './print.ts';
import { noteDefaults, readReport } from './read-config.ts';

type CheckFlags = Args<typeof CHECK_FLAGS>['flags'];

export async function check({ flags, operands }: Args<typeof CHECK_FLAGS>): Promise<number> {
  const { expect } = flags;
  const expected = expect === '' ? undefined : await readExpectFile(expect, configOptions(flags));
  if (typeof expected === 'string') throw new UsageError(`the file of --expect cannot be used\n${expected}`);
  const found = await readReport(flags, [...operands, ...flags.filename]);
  const { config } = found;
  if (config !== undefined) noteDefaults(config, flags, flags.output === 'text' && !flags.quiet);
  const report = expected === undefined ? found : withExpectations(found, expected);
  print(REPORTS[flags.output](report, flags));
  if (config === undefined) return EXIT.config;
  return report.problems.some(({ kind }) => kind === 'expectation') ? EXIT.different : EXIT.ok;
}

const REPORTS: Readonly<
  Record<keyof typeof CHECK_FORMATS, (report: CheckReport, flags: CheckFlags) => string>
> = {
  text: (report, flags) =>
    `${flags.quiet ? '' : mergedText(report, keptFamilies(flags))}${textReport(report, wantsColour(STDOUT), flags.quiet)}`,
  json: jsonReport,
  github: (report, flags) => githubReport(report, flags['stdin-name']),
  sarif: (report) => sarifReport(report, buildInfo().version),
};
