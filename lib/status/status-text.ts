import type { State } from '../agent/state.ts';
import { formatProblem } from '../config/problem.ts';
import { CONNECTIONS_KEEP } from '../policy/changes.ts';
import { BEGINNINGS, countsText } from '../policy/flow-counts.ts';
import { printable } from '../text/escape.ts';
import { type About, agentState, detailLines, stateLines, time } from './status-json.ts';

/** What the agent answers at `/statusz`: the lines of the command `status`, then what else it has read, for people. */
export function statusText(state: State, about: About): string {
  const json = agentState(state, about);
  const lines = [
    ...stateLines(json),
    ...detailLines(json),
    ...section('errors', (state.invalid?.error.problems ?? []).map(formatProblem)),
    ...section('conflicts and checks', (state.valid?.config.problems ?? []).map(formatProblem)),
    ...section(`last change of verdicts (${CONNECTIONS_KEEP})`, verdictLines(state)),
    ...section('connections against the config', flowLines(state)),
    ...section('what else does NAT here, in the order of packets', suspectLines(state)),
  ];
  return lines.map((line) => `${printable(line)}\n`).join('');
}

function section(title: string, lines: readonly string[]): readonly string[] {
  return lines.length === 0 ? [] : ['', `${title}:`, ...lines.map((line) => `  ${line}`)];
}

function verdictLines({ families }: State): readonly string[] {
  return [...families].flatMap(([family, { lastVerdicts: last }]) =>
    last === undefined ? [] : [`${time(last.at)}, ${family}: ${last.summary}`, ...last.lines],
  );
}

function flowLines({ flows }: State): readonly string[] {
  if (flows === undefined || flows.isOutdated) return ['not read'];
  const { at, counts, examples } = flows;
  if (counts.length === 0) return [`${time(at)}: none`];
  const sums = BEGINNINGS.flatMap((since) => {
    const some = counts.filter((one) => one.since === since);
    return some.length === 0
      ? []
      : [`${time(at)}: ${countsText(some)}, begun ${since} the agent's last change`];
  });
  return [...sums, ...examples];
}

function suspectLines(state: State): readonly string[] {
  const { suspects, unread } = state.suspects ?? { suspects: [], unread: ['not read yet'] };
  const lines = [...suspects, ...unread.map((what) => `not read: ${what}`)];
  return lines.length === 0 ? ['none found'] : lines;
}
