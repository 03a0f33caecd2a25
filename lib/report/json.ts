import type { MergedConfig } from '../config/config.ts';
import { configHash } from '../config/config-hash.ts';
import { KEYS } from '../config/keys.ts';
import type { Problem } from '../config/problem.ts';
import { prettyJson } from '../text/escape.ts';
import { originValue } from '../text/origin.ts';
import { type AgentReport, type CheckReport, summarize } from './report.ts';

/** The JSON report: the problems and the merged config, for programs. Names and messages can be read back as they were. */
export function jsonReport({ problems, config, configFiles, agents = [] }: CheckReport): string {
  const summary = summarize(problems);
  return prettyJson({
    ok: config !== undefined,
    hash: config === undefined ? null : configHash(config),
    summary,
    configFiles: configFiles.map(({ name, embeddedIn }) => ({ name, file: embeddedIn?.file.name ?? name })),
    problems: problems.map(problemValue),
    merged: config === undefined ? null : mergedValue(config),
    agents: agents.map(agentValue),
  });
}

function agentValue({ name, flags, unknown, config }: AgentReport) {
  const ok = config !== undefined;
  return {
    name,
    flags,
    unknown,
    ok,
    hash: ok ? configHash(config) : null,
    merged: ok ? mergedValue(config) : null,
  };
}

export function problemValue({ severity, kind, message, remedy, at, other }: Problem) {
  return { severity, kind, message, remedy, at: locationOf(at), other: locationOf(other) };
}

/** A merged config as plain values, each entry with its origin. */
export function mergedValue(config: MergedConfig): Readonly<Record<string, unknown>> {
  const keys = KEYS.map((key) => key.json(config));
  return Object.assign({ configFiles: config.configFileNames }, ...keys);
}

/** A location as plain values. A file as a whole has the same keys as a position in it, so that programs need not ask. */
function locationOf(at: Problem['at']) {
  if (at === undefined) return null;
  if (at.kind !== 'whole-file') return originValue(at);
  return { configFile: at.file, file: at.file, line: null, column: null };
}
