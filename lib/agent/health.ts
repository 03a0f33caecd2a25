import type { Policy } from '../policy/policy.ts';
import type { FamilyStatus, Status } from './status.ts';

/** Whether something holds, and why. */
export interface Check {
  readonly name: string;
  readonly isGood: boolean;
  readonly reason: string;
}

/** Syncs may be late by a busy lock; three intervals are more than that. */
const INTERVALS = 3;

/** Whether traffic can rely on the rules: every family is synced, and lately. */
export function readiness(
  { families }: Pick<Status, 'families'>,
  kept: readonly Policy['family'][],
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
  const age = Math.round((now - status.lastSuccess) / 1000);
  const most = Math.round((INTERVALS * intervalMs) / 1000);
  const reason = `last sync ${age} s ago, at most ${most} s are good`;
  return { isGood: now - status.lastSuccess <= INTERVALS * intervalMs, reason };
}

/** The checks as text: one word where all is good, and the reasons where it is not or where they are asked for. */
export function checksText(checks: readonly Check[], verbose: boolean): string {
  const isGood = checks.every((check) => check.isGood);
  const shown = checks.filter((check) => verbose || !check.isGood);
  const lines = shown.map(({ name, isGood: good, reason }) => `[${good ? '+' : '-'}] ${name}: ${reason}`);
  return `${[...lines, isGood ? 'ok' : 'not ok'].join('\n')}\n`;
}
