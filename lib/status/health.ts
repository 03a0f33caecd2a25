import type { Family } from '../policy/policy.ts';
import type { FamilyStatus, Status } from './status.ts';

/** Whether something holds, and why. */
export interface Check {
  readonly name: string;
  readonly isGood: boolean;
  readonly reason: string;
}

/** Syncs may be late by a busy lock; three intervals are more than that. */
const INTERVALS = 3;

/**
 * Whether traffic can rely on the rules: every family is synced, and lately.
 *
 * @param now milliseconds of `performance.now()`: a node whose clock is set is no reason to drain it
 */
export function readiness(
  { families }: Pick<Status, 'families'>,
  kept: readonly Family[],
  intervalMs: number,
  now: number,
): readonly Check[] {
  return kept.map((family) => ({ name: `sync ${family}`, ...lately(families.get(family), intervalMs, now) }));
}

function lately(
  status: FamilyStatus | undefined,
  intervalMs: number,
  now: number,
): Pick<Check, 'isGood' | 'reason'> {
  if (status === undefined) return { isGood: false, reason: 'no sync has succeeded yet' };
  const age = now - status.syncedAt;
  const most = INTERVALS * intervalMs;
  const reason = `last sync ${seconds(age)} s ago, at most ${seconds(most)} s are good`;
  return { isGood: age <= most, reason };
}

/** To the millisecond, so that it never reads as if a sync that is too late were not. */
function seconds(ms: number): number {
  return Math.ceil(ms) / 1000;
}

/** The checks as text: one word where all is good, and the reasons where it is not or where they are asked for. */
export function checksText(checks: readonly Check[], verbose: boolean): string {
  const isGood = checks.every((check) => check.isGood);
  const shown = checks.filter((check) => verbose || !check.isGood);
  const lines = shown.map(({ name, isGood: good, reason }) => `[${good ? '+' : '-'}] ${name}: ${reason}`);
  return `${[...lines, isGood ? 'ok' : 'not ok'].join('\n')}\n`;
}
