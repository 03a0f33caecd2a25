import type { Family } from '../cidr/address.ts';
import { type Dataplane, type RuleLocation, ruleLocationName } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Logger } from '../log/log.ts';
import { adviceText } from '../text/advice.ts';
import { counted } from '../text/words.ts';
import { type RetryOptions, retrying } from './retry.ts';

export interface Removal extends RuleLocation {
  /** Whether nothing was removed, but only observed. */
  readonly isDry: boolean;
  /** The removed rules and jumps; undefined if there were none, or it failed. */
  readonly rules?: readonly string[] | undefined;
  /** Why it failed; `missing` if the tool of the family is not installed, so that nothing was read. */
  readonly error?: DataplaneError;
  /** Empty chains that cannot be deleted, in words. */
  readonly undeletable: readonly string[];
}

interface RemovalOptions extends RetryOptions {
  /** Asked at the last moment: whether rules that were to be removed may be in use now, and stay. */
  readonly isOutdated?: () => boolean;
}

/**
 * Removes the agent's rules from all of these locations. A failure in one does not stop the others.
 *
 * @param isDry only says what it would remove
 */
export async function removeFromAll(
  locations: readonly RuleLocation[],
  options: RemovalOptions,
  isDry = false,
): Promise<readonly Removal[]> {
  const removals: Removal[] = [];
  for (const location of locations) {
    try {
      const removed = await removeRules(location.dataplane, location.family, options, isDry);
      removals.push({ ...location, isDry, ...removed });
    } catch (error) {
      if (!(error instanceof DataplaneError)) throw error;
      // What the kernel does not support cannot be there.
      removals.push({
        ...location,
        isDry,
        ...(error.failure !== 'unsupported' && { error }),
        undeletable: [],
      });
    }
  }
  return removals;
}

/**
 * Removes the agent's rules of one family. Starts again if the kernel is busy, or changes in between.
 *
 * @returns the removed rules and jumps, undefined if there were none; and the chains that cannot be deleted, in words
 * @throws {DataplaneError}
 */
export async function removeRules(
  dataplane: Dataplane,
  family: Family,
  options: RemovalOptions,
  isDry = false,
): Promise<{ readonly rules: readonly string[] | undefined; readonly undeletable: readonly string[] }> {
  return retrying(async () => {
    const observed = await dataplane.observe(family);
    const plan = observed.planRemoval();
    if (isDry) return { rules: plan?.current, undeletable: [] };
    if (options.isOutdated?.()) return { rules: undefined, undeletable: [] };
    await plan?.apply();
    const undeletable = observed.describeUndeletable();
    const isGone = undeletable.length === 0 || plan?.current.length !== 0;
    return { rules: isGone ? plan?.current : undefined, undeletable };
  }, options);
}

/** Whether rules may be left. */
export function hasFailed({ error }: Removal): boolean {
  return error !== undefined && error.failure !== 'missing';
}

/**
 * Logs what was removed, and what cannot be deleted.
 *
 * @param why the beginning of the line
 */
export function logRemoval(log: Logger, removal: Removal, why = ''): void {
  const { family, rules, undeletable } = removal;
  if (rules !== undefined) log.info({ family, rules }, `${why}${describeRemoval(removal)}`);
  for (const text of undeletable) log.warn({ family }, text);
}

export function describeRemoval(removal: Removal): string {
  return `${ruleLocationName(removal)}: ${resultText(removal)}`;
}

function resultText({ rules, error, isDry }: Removal): string {
  if (error !== undefined)
    return error.failure === 'missing' ? `not read: ${error.message}` : adviceText(error);
  if (rules === undefined) return 'no rules of the agent';
  const verb = isDry ? 'would remove' : 'removed';
  return `${verb} ${rules.length === 0 ? 'an empty chain' : counted(rules.length, 'rule')}`;
}
