import { formatProblem } from '../config/problem.ts';
import type { Family } from '../policy/policy.ts';
import { printable } from '../text/escape.ts';
import type { FamilyStatus, InvalidConfig, Status } from './status.ts';

/** The result of one check, with the reason. */
interface Check {
  readonly name: string;
  readonly isGood: boolean;
  readonly reason: string;
}

/** How many intervals a sync may be late: longer than a busy lock delays it. */
const INTERVALS = 3;

/**
 * Whether traffic can rely on the rules: the config is valid, and the last sync of every family is recent.
 *
 * @param now milliseconds of `performance.now()`, which does not change if the clock of the node is set
 */
export function readiness(
  { families, invalid }: Pick<Status, 'families' | 'invalid'>,
  kept: readonly Family[],
  intervalMs: number,
  now: number,
): readonly Check[] {
  return [
    { name: 'config', ...validity(invalid) },
    ...kept.map((family) => ({ name: `sync ${family}`, ...lately(families.get(family), intervalMs, now) })),
  ];
}

function validity(invalid: InvalidConfig | undefined): Pick<Check, 'isGood' | 'reason'> {
  if (invalid === undefined) return { isGood: true, reason: 'no error at the last reading' };
  const { error, since } = invalid;
  const [first] = error.problems;
  const example = first === undefined ? '' : `, the first is ${printable(formatProblem(first))}`;
  const reason = `${error.message} since ${new Date(since).toISOString()}${example}`;
  return { isGood: false, reason };
}

function lately(
  status: FamilyStatus | undefined,
  intervalMs: number,
  now: number,
): Pick<Check, 'isGood' | 'reason'> {
  if (status === undefined) return { isGood: false, reason: 'no sync has succeeded yet' };
  const age = now - status.syncedAt;
  const most = INTERVALS * intervalMs;
  const reason = `last sync ${seconds(age)} s ago, the limit is ${seconds(most)} s`;
  return { isGood: age <= most, reason };
}

/** Seconds, rounded up to milliseconds: a sync that is too late never looks as if it were in time. */
function seconds(ms: number): number {
  return Math.ceil(ms) / 1000;
}

/** The checks as text: the result, before it the reasons of failed checks, or of all if asked for. */
export function checksText(checks: readonly Check[], verbose: boolean): string {
  const isGood = checks.every((check) => check.isGood);
  const shown = checks.filter((check) => verbose || !check.isGood);
  const lines = shown.map(({ name, isGood: good, reason }) => `[${good ? '+' : '-'}] ${name}: ${reason}`);
  return `${[...lines, isGood ? 'ok' : 'not ok'].join('\n')}\n`;
}
