import { formatProblem } from '../../lib/config/problem.ts';
import { readFile } from '../../lib/inputs/input.ts';
import type { GivenTraffic } from '../../lib/policy/checks.ts';
import { githubReport } from '../../lib/report/github.ts';
import { jsonReport } from '../../lib/report/json.ts';
import { mergedTexts } from '../../lib/report/merged-text.ts';
import type { CheckReport } from '../../lib/report/report.ts';
import { textReport } from '../../lib/report/text-report.ts';
import { printable, quote } from '../../lib/text/escape.ts';
import { checkAgents } from './check-agents.ts';
import type { Args } from './command.ts';
import type { CHECK_FLAGS, CHECK_FORMATS } from './command-flags.ts';
import { EXIT, UsageError } from './exit.ts';
import { assertions } from './flag-kinds.ts';
import { checkTogether, type FlagValues } from './flags.ts';
import { configOptions, keptFamilies } from './from-flags.ts';
import { print, STDOUT, wantsColour } from './print.ts';
import { noteDefaults, readPaths, reportOf } from './read-config.ts';

type CheckFlags = Args<typeof CHECK_FLAGS>['flags'];

export async function check(args: Args<typeof CHECK_FLAGS>): Promise<number> {
  const { flags, operands } = args;
  const isExpected = flags.expect !== '';
  const expected = isExpected ? await readAssertions(flags.expect) : NO_ASSERTIONS;
  const complete = <Flags extends FlagValues>(some: Flags) => withAssertions(some, expected);
  const inputs = await readPaths(flags, [...operands, ...flags.filename]);
  const report =
    inputs.agents.length === 0
      ? reportOf(inputs, configOptions(complete(flags)))
      : checkAgents(inputs, args, complete);
  const { config, problems } = report;
  if (config !== undefined) noteDefaults(config, flags, flags.output === 'text');
  print(REPORTS[flags.output](report, flags));
  if (config !== undefined) return EXIT.ok;
  const isOnlyBroken = problems.every(({ kind, severity }) => kind === 'assertion' || severity !== 'error');
  return isExpected && isOnlyBroken ? EXIT.different : EXIT.config;
}

const EXAMPLE = 'write for example --must-masquerade=8.8.8.8/32';

type Assertions = Record<'must-masquerade' | 'must-not-masquerade', GivenTraffic[]>;

const NO_ASSERTIONS: Assertions = { 'must-masquerade': [], 'must-not-masquerade': [] };

/**
 * The assertions of a file: one a line, as on the command line; `#` begins a comment.
 *
 * @throws {UsageError}
 */
async function readAssertions(path: string): Promise<Assertions> {
  const file = await readFile(path);
  if (!('text' in file)) throw new UsageError(`--expect: ${formatProblem(file)}`);
  const said: Assertions = { 'must-masquerade': [], 'must-not-masquerade': [] };
  for (const [index, whole] of file.text.split('\n').entries()) {
    const line = `line ${index + 1} of the file that --expect names`;
    const text = whole.replace(/(?:^|\s)#.*$/, '').trim();
    const [, name, cidrs = ''] = /^--(must-(?:not-)?masquerade)=(.+)$/.exec(text) ?? [];
    try {
      if (name === 'must-masquerade' || name === 'must-not-masquerade')
        said[name].push(...assertions.parse(cidrs).map((one) => ({ ...one, line })));
      else if (text !== '') throw new UsageError(`is not an assertion: ${EXAMPLE}`);
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      throw new UsageError(`--expect: ${printable(file.name)}:${index + 1}: ${quote(text)} ${error.message}`);
    }
  }
  if (said['must-masquerade'].length + said['must-not-masquerade'].length === 0)
    throw new UsageError(`--expect: ${printable(file.name)} has no assertion: ${EXAMPLE}`);
  return said;
}

/** The flags, with more assertions. */
function withAssertions<Flags extends FlagValues>(flags: Flags, more: Assertions): Flags {
  const all = {
    ...flags,
    'must-masquerade': [...flags['must-masquerade'], ...more['must-masquerade']],
    'must-not-masquerade': [...flags['must-not-masquerade'], ...more['must-not-masquerade']],
  };
  checkTogether(all);
  return all;
}

const REPORTS: Readonly<
  Record<keyof typeof CHECK_FORMATS, (report: CheckReport, flags: CheckFlags) => string>
> = {
  text: (report, flags) =>
    `${mergedTexts(report, keptFamilies(flags))}${textReport(report, wantsColour(STDOUT))}`,
  json: jsonReport,
  github: githubReport,
};
