import type { MergedConfig } from '../config/config.ts';
import { problemFramer } from '../config/frame.ts';
import { KEYS } from '../config/keys.ts';
import type { LoadedConfig } from '../config/load.ts';
import { formatProblem, type Problem } from '../config/problem.ts';
import type { PlannedRule } from '../dataplane/dataplane.ts';
import type { Logger } from '../log/log.ts';
import { CONNECTIONS_KEEP } from '../policy/changes.ts';
import { formatOrigin } from '../text/origin.ts';
import { programs } from '../text/programs.ts';
import { counted, truncated } from '../text/words.ts';
import type { SyncedFamily } from './next-state.ts';
import type { Trigger } from './reasons.ts';

const MAX_RULES = 100;

const LOG_LEVEL = { error: 'error', warning: 'warn', info: 'info' } as const;

const NO_CONFIG =
  'no config found, the defaults apply; an empty volume and a missing ConfigMap look the same to the agent: if there should be a config, compare the ConfigMaps and their keys with the volume';

export function logConfig(log: Logger, { config, problems, configFiles }: LoadedConfig): void {
  const count = config?.configFileNames.length ?? 0;
  if (config && count === 0) log.warn(describeConfig(config), NO_CONFIG);
  else if (config) log.info(describeConfig(config), `config read from ${counted(count, 'config file')}`);
  const frame = problemFramer(configFiles);
  for (const problem of problems) logProblem(log, problem, frame(problem));
}

/** Logs what a round has done in a family. */
export function logSync(log: Logger, sync: SyncedFamily, trigger: Trigger): void {
  const { family, policy, change, verdicts, drifted, observed, holds } = sync;
  if (change === undefined || verdicts === undefined) {
    log.debug({ family, reason: trigger.reason }, 'nothing to change');
    return;
  }
  const { found, added, removed, kept } = change.plan;
  const rules = [
    ...added.map((rule) => `+ ${describeRule(rule)}`),
    ...removed.map((rule) => `- ${describeRule(rule)}`),
  ];
  const fields = {
    family,
    reason: trigger.reason,
    found,
    took_ms: tenths(performance.now() - trigger.since),
    verdicts: verdicts.lines,
    rules: truncated(rules, MAX_RULES, String),
  };
  const keep = verdicts.lines.length > 0 ? `; ${CONNECTIONS_KEEP}` : '';
  const counts = `rules added ${added.length}, removed ${removed.length}, kept ${kept}; ${verdicts.summary}${keep}`;
  const foreign = `${family}: ${programs(trigger.by)} has changed the agent's rules`;
  if (!holds)
    log.warn(fields, `${foreign} again before they were read back; the agent tries again; ${counts}`);
  else if (drifted) log.warn(fields, `${foreign}; repaired: ${found.join(', ')}; ${counts}`);
  else log.info(fields, `${family}: ${counts}`);
  for (const text of observed?.describeUndeletable(policy) ?? []) log.warn({ family }, text);
}

function logProblem(log: Logger, problem: Problem, text: string): void {
  const [, ...frame] = text.split('\n');
  log[LOG_LEVEL[problem.severity]](
    { kind: problem.kind, ...(frame.length > 0 && { frame }) },
    formatProblem(problem),
  );
}

function describeConfig(config: MergedConfig): Record<string, unknown> {
  const logged = KEYS.filter(({ logged = true }) => logged);
  const values = logged.map((key) => [key.name, key.logValue(config)] as const);
  return { configFiles: config.configFileNames, ...Object.fromEntries(values) };
}

function describeRule({ text, entry }: PlannedRule): string {
  return entry === undefined ? text : `${text} (${formatOrigin(entry.origin)})`;
}

function tenths(value: number): number {
  return Math.round(value * 10) / 10;
}
