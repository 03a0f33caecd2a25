import type { VerdictChanges } from '../policy/changes.ts';

/** Over how long a change of verdicts spreads over the nodes, 0 for at once, and the name of this one. */
export interface Rollout {
  readonly windowMs: number;
  readonly node: string;
}

/** A valid config that is not in use. */
export interface NextConfig {
  readonly hash: string;
  /** What it changes in each family. */
  readonly changes: readonly VerdictChanges[];
  /** Whether it only brings back the verdicts from before the last change. */
  readonly goesBack: boolean;
  /** Since when the config files say so. */
  readonly since: number;
}

/**
 * When the node applies a config, undefined if at once. All times are those of performance.now().
 *
 * What changes no verdict, what goes back, and what a node without rules needs does not wait. The first change that the node has not
 * applied decides about the time: later ones cannot put it off, and are applied with it.
 *
 * @param pendingAt when it applies what is pending; undefined if nothing is
 */
export function dueAt(
  pendingAt: number | undefined,
  { hash, changes, goesBack, since }: NextConfig,
  now: number,
  { node, windowMs }: Rollout,
): number | undefined {
  const hasNoRules = changes.some(({ hadNoEffect }) => hadNoEffect);
  if (goesBack || hasNoRules || changes.every(({ lines }) => lines.length === 0)) return undefined;
  const at = pendingAt ?? since + shareOf(node, hash) * windowMs;
  return at <= now ? undefined : at;
}

/** Where in the window a node has its time, from 0 to less than 1: each config begins with other nodes. */
export function shareOf(node: string, hash: string): number {
  // Not loaded without a window, because it takes 3 ms.
  const { createHash } = process.getBuiltinModule('node:crypto');
  return createHash('sha256').update(`${node} ${hash}`).digest().readUInt32BE() / 2 ** 32;
}
