import { type Problem, problem } from '../../lib/config/problem.ts';
import type { AllInputs } from '../../lib/inputs/input.ts';
import type { Argument, Workload } from '../../lib/inputs/workload.ts';
import type { AgentReport, CheckReport } from '../../lib/report/report.ts';
import type { Args } from './command.ts';
import { UsageError } from './exit.ts';
import { type FlagTexts, flagValues } from './flag-table.ts';
import { checkGiven, checkTogether, FLAGS, type FlagName, type FlagValues, POLICY_FLAGS } from './flags.ts';
import { configOptions, keptFamilies } from './from-flags.ts';
import { mergeInputs } from './read-config.ts';

/** The command line: its flags win. */
type Given = Pick<Args, 'flagTexts' | 'parse'>;

/**
 * What each agent of the manifests would read with its own arguments, and all problems together.
 *
 * @param complete adds what the command line says of all agents
 */
export function checkAgents(
  inputs: AllInputs,
  given: Given,
  complete: (flags: FlagValues) => FlagValues,
): CheckReport {
  const found = inputs.agents.map((agent) => checkAgent(agent, inputs, given, complete));
  const [first] = found;
  const isValid = found.every(({ report }) => report.config !== undefined);
  const { configFiles, manifests } = inputs;
  return {
    configFiles,
    manifests,
    config: isValid ? first?.report.config : undefined,
    problems: allProblems(found),
    agents: found.map(({ report }) => report),
  };
}

interface Checked {
  readonly report: AgentReport;
  readonly problems: readonly Problem[];
}

function checkAgent(
  agent: Workload,
  { problems }: AllInputs,
  { flagTexts: given, parse }: Given,
  complete: (flags: FlagValues) => FlagValues,
): Checked {
  const { name, configFiles } = agent;
  const args = agent.args.filter(isKnown);
  const wrong = wrongArgument(args, parse);
  const own: FlagTexts = wrong === undefined ? parse(textsOf(args)).flagTexts : new Map();
  const flags = complete(flagValues(FLAGS, new Map([...own, ...given])));
  const merged = mergeInputs(
    { configFiles, problems: wrong === undefined ? problems : [...problems, wrong] },
    configOptions(flags),
  );
  const shown = CHECKED.filter((flag) => own.has(flag) && !given.has(flag));
  const report = {
    name,
    flags: shown.map((flag) => `--${flag}=${own.get(flag)?.join(',')}`),
    unknown: agent.args.flatMap(({ isUnknown, text }) => (isUnknown && decides(text) ? text : [])),
    families: keptFamilies(flags),
    config: merged.config,
  };
  return { report, problems: merged.problems };
}

/** The flags that decide what check finds. */
const CHECKED: readonly FlagName[] = ['config-dir', 'to-ports', ...POLICY_FLAGS];

function decides(text: string): boolean {
  return !text.startsWith('-') || CHECKED.some((flag) => text.replace(/^--?/, '').startsWith(`${flag}=`));
}

/** Whether its text is not only known in the cluster; a flag goes with its value. */
function isKnown({ isUnknown }: Argument, index: number, all: readonly Argument[]): boolean {
  const next = all[index + 1];
  return !isUnknown && !(next?.isUnknown && !next.text.startsWith('-'));
}

/** The first argument with which the agent would not start. */
function wrongArgument(args: readonly Argument[], parse: Args['parse']): Problem | undefined {
  const error = usageError(args, parse);
  if (error === undefined) return undefined;
  // The error names the flag first, or quotes the argument.
  const [name] = /--[\w-]+|(?<=")[^"]*(?=")/.exec(error) ?? [];
  const wrong = args.find(({ text }) => text.replace(/=.*$/s, '').replace(/^--?(?=\w)/, '--') === name);
  const { origin } = wrong ?? args[0] ?? {};
  return problem('arguments', {
    ...(origin && { at: origin }),
    message: `the agent does not start: ${error}`,
    remedy: 'correct the arguments of the container',
  });
}

function usageError(args: readonly Argument[], parse: Args['parse']): string | undefined {
  try {
    const { flagTexts } = parse(textsOf(args));
    const flags = flagValues(FLAGS, flagTexts);
    checkGiven(flags);
    checkTogether(flags);
    return undefined;
  } catch (error) {
    if (error instanceof UsageError) return error.message;
    throw error;
  }
}

function textsOf(args: readonly Argument[]): readonly string[] {
  return args.map(({ text }) => text);
}

/** Each problem once; one that only some agents have names these. */
function allProblems(found: readonly Checked[]): readonly Problem[] {
  const byText = new Map<string, { readonly one: Problem; readonly names: string[] }>();
  for (const { report, problems } of found)
    for (const one of problems) {
      const text = JSON.stringify(one);
      const known = byText.get(text) ?? { one, names: [] };
      byText.set(text, known);
      known.names.push(report.name);
    }
  return [...byText.values()].map(({ one, names }) =>
    names.length === found.length ? one : { ...one, message: `${names.join(', ')}: ${one.message}` },
  );
}
