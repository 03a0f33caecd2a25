import { unreadyReason } from '../agent/out-of-sync.ts';
import { type InvalidConfig, intervalOf, type State } from '../agent/state.ts';
import { formatProblem } from '../config/problem.ts';
import type { Family } from '../policy/policy.ts';
import { printable } from '../text/escape.ts';

export interface ProbeCheck {
  readonly name: string;
  readonly isGood: boolean;
  readonly reason: string;
}

/** How many intervals a sync may be late: longer than a busy lock delays it. */
const INTERVALS = 3;

/**
 * Whether traffic can rely on the rules: the config is valid, the last sync of every family is recent, and the kernel is
 * not without the rules for long, whoever's fault that is.
 *
 * @param resyncInterval milliseconds between two resyncs, if no config file says otherwise
 * @param now milliseconds of `performance.now()`, which does not change if the clock of the node is set
 */
export function readiness(
  state: Pick<State, 'families' | 'invalid' | 'lastRound' | 'outOfSync' | 'pending' | 'valid'>,
  keptFamilies: readonly Family[],
  resyncInterval: number,
  now: number,
): readonly ProbeCheck[] {
  const { families, invalid, lastRound, outOfSync, pending } = state;
  const interval = intervalOf(state, resyncInterval);
  const why = unreadyReason(outOfSync, now);
  // Until the time of its first config, the agent keeps the rules of an earlier run, unless another program blocks them.
  const readAt = pending && lastRound?.inSync !== false ? lastRound?.endedAt : undefined;
  return [
    configCheck(invalid),
    ...keptFamilies.map((family) => ({
      name: `sync ${family}`,
      ...recencyCheck('sync', families.get(family)?.syncedAt ?? readAt, interval, now),
    })),
    { name: 'rules', isGood: why === undefined, reason: why ?? 'they have not been out of sync for long' },
  ];
}

/**
 * Whether the loop goes on, whatever its rounds find: what a restart can mend. Without a config there is nothing to sync.
 *
 * @param resyncInterval as `readiness` takes it
 */
export function liveness(
  state: Pick<State, 'lastRound' | 'valid'>,
  resyncInterval: number,
  now: number,
): readonly ProbeCheck[] {
  const { lastRound, valid } = state;
  if (valid === undefined) return [{ name: 'loop', isGood: true, reason: 'there is no config to sync' }];
  const interval = intervalOf(state, resyncInterval);
  return [{ name: 'loop', ...recencyCheck('round', lastRound?.endedAt, interval, now) }];
}

/** Whether the last reading of the config files had no error. */
function configCheck(invalid: InvalidConfig | undefined): ProbeCheck {
  const name = 'config';
  if (invalid === undefined) return { name, isGood: true, reason: 'no error at the last reading' };
  const { error, since } = invalid;
  const [first] = error.problems;
  const example = first === undefined ? '' : `, the first is ${printable(formatProblem(first))}`;
  const reason = `${error.message} since ${new Date(since).toISOString()}${example}`;
  return { name, isGood: false, reason };
}

/**
 * Whether what is done at each interval was done lately.
 *
 * @param at when it succeeded last, in milliseconds of performance.now()
 */
function recencyCheck(
  what: string,
  at: number | undefined,
  intervalMs: number,
  now: number,
): Pick<ProbeCheck, 'isGood' | 'reason'> {
  if (at === undefined) return { isGood: false, reason: `no ${what} has succeeded yet` };
  const age = now - at;
  const most = INTERVALS * intervalMs;
  const reason = `last ${what} ${seconds(age)} s ago, the limit is ${seconds(most)} s`;
  return { isGood: age <= most, reason };
}

/** Seconds, rounded up to milliseconds: a sync that is too late never looks as if it were in time. */
function seconds(ms: number): number {
  return Math.ceil(ms) / 1000;
}
