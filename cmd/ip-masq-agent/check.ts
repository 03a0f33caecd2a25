import { sizeOf } from '../../lib/cidr/ranges.ts';
import type { MergedConfig } from '../../lib/config/config.ts';
import type { ConfigFile } from '../../lib/config/config-file.ts';
import { configHash } from '../../lib/config/config-hash.ts';
import { problemFramer } from '../../lib/config/frame.ts';
import { type Problem, problem } from '../../lib/config/problem.ts';
import { readExpectations } from '../../lib/inputs/expectations.ts';
import { readFile } from '../../lib/inputs/input.ts';
import { failedExpectations } from '../../lib/policy/checks.ts';
import { notMasqueradedDestinations } from '../../lib/policy/flatten.ts';
import { compilePolicy, type Family } from '../../lib/policy/policy.ts';
import { configFileText } from '../../lib/report/config-file-text.ts';
import { githubReport } from '../../lib/report/github.ts';
import { jsonReport } from '../../lib/report/json.ts';
import type { CheckReport } from '../../lib/report/report.ts';
import { sarifReport } from '../../lib/report/sarif.ts';
import { textReport } from '../../lib/report/text-report.ts';
import { counted, countedAddresses } from '../../lib/text/words.ts';
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
  const expected = expect === '' ? undefined : await readExpectFile(expect, flags);
  const found = await readReport(flags, [...operands, ...flags.filename]);
  const { config } = found;
  if (config !== undefined) noteDefaults(config, flags, flags.output === 'text' && !flags.quiet);
  const broken = config && expected ? failedExpectations(config, expected.expectations) : [];
  const failed = broken.map((one) => problem(one.kind, one));
  const report = {
    ...found,
    problems: [...found.problems, ...failed],
    ...(expected && { expected: { file: expected.file, count: expected.expectations.length } }),
  };
  print(REPORTS[flags.output](report, flags));
  if (config === undefined) return EXIT.config;
  return failed.length > 0 ? EXIT.different : EXIT.ok;
}

/**
 * The file of --expect, and what it says.
 *
 * @throws {UsageError} with all that is wrong with the file
 */
async function readExpectFile(path: string, flags: CheckFlags) {
  const file = await readFile(path);
  const refuse = (problems: readonly Problem[], configFiles: readonly ConfigFile[]) =>
    new UsageError(
      ['the file of --expect cannot be used', ...problems.map(problemFramer(configFiles))].join('\n'),
    );
  if (!('text' in file)) throw refuse([file], []);
  const { expectations, problems } = readExpectations(file, configOptions(flags));
  if (problems.length > 0) throw refuse(problems, [file]);
  return { file, expectations };
}

const REPORTS: Readonly<
  Record<keyof typeof CHECK_FORMATS, (report: CheckReport, flags: CheckFlags) => string>
> = {
  text: (report, flags) =>
    `${flags.quiet ? '' : mergedText(report, flags)}${textReport(report, wantsColour(STDOUT), flags.quiet)}`,
  json: jsonReport,
  github: (report, flags) => githubReport(report, flags['stdin-name']),
  sarif: (report) => sarifReport(report, buildInfo().version),
};

/** The merged config and its size; empty if there is an error. */
function mergedText({ config }: CheckReport, flags: CheckFlags): string {
  if (config === undefined) return '';
  const families = keptFamilies(flags);
  const configFile = configFileText(config, families);
  const sizes = families.map((family) => `${sizeLine(config, family)}\n`);
  return `${configFile}\n${sizes.join('')}config hash ${configHash(config)}, without flags: nodes with equal hashes have an equal config, not always equal rules\n`;
}

/** The number of addresses that are not masqueraded. An address in several entries counts once, exceptions do not. */
function sizeLine(config: MergedConfig, family: Family): string {
  const set = notMasqueradedDestinations(compilePolicy(config, family));
  const size = sizeOf(set.ranges);
  const are = size === 1n ? 'is' : 'are';
  return `${family}: ${counted(set.ranges.length, 'range')}, ${countedAddresses(size)} ${are} not masqueraded`;
}
