import { type Place, placeName } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Logger } from '../log/log.ts';
import { adviceText } from '../text/advice.ts';
import { counted } from '../text/words.ts';
import { removeRules } from './reconcile.ts';
import type { RetryOptions } from './retry.ts';

/** The result of a removal in one place. */
interface Removal extends Place {
  readonly outcome:
    | { readonly kind: 'nothing' }
    /** The removed rules and jumps. */
    | { readonly kind: 'removed'; readonly rules: readonly string[] }
    /** The tool of the family is not installed. */
    | { readonly kind: 'not looked at'; readonly error: DataplaneError }
    | { readonly kind: 'failed'; readonly error: DataplaneError };
  /** Empty chains that cannot be deleted, in words. */
  readonly stays: readonly string[];
}

/** Removes the agent's rules from these places. A failure in one does not stop the others. */
export async function removeAll(
  places: readonly Place[],
  options: RetryOptions,
): Promise<readonly Removal[]> {
  const removals: Removal[] = [];
  for (const place of places) {
    const result = await removeRules(place.dataplane, place.family, options).then(removed, notRemoved);
    removals.push({ ...place, ...result });
  }
  return removals;
}

type Result = Omit<Removal, keyof Place>;

function removed({ rules, stays }: Awaited<ReturnType<typeof removeRules>>): Result {
  return { outcome: rules === undefined ? { kind: 'nothing' } : { kind: 'removed', rules }, stays };
}

function notRemoved(error: unknown): Result {
  if (!(error instanceof DataplaneError)) throw error;
  if (error.failure === 'unsupported') return { outcome: { kind: 'nothing' }, stays: [] };
  const kind = error.failure === 'missing' ? 'not looked at' : 'failed';
  return { outcome: { kind, error }, stays: [] };
}

/**
 * Logs what was removed, and what stays.
 *
 * @param why the beginning of the line
 */
export function logRemoval(log: Logger, removal: Removal, why = ''): void {
  const { family, outcome, stays } = removal;
  if (outcome.kind === 'removed')
    log.info({ family, rules: outcome.rules }, `${why}${describeRemoval(removal)}`);
  for (const text of stays) log.warn({ family }, text);
}

/** The removal in one line. */
export function describeRemoval(removal: Removal): string {
  return `${placeName(removal)}: ${describeOutcome(removal.outcome)}`;
}

function describeOutcome(outcome: Removal['outcome']): string {
  switch (outcome.kind) {
    case 'nothing':
      return 'no rules of the agent';
    case 'removed': {
      const { length } = outcome.rules;
      return length === 0 ? 'removed an empty chain' : `removed ${counted(length, 'rule')}`;
    }
    case 'not looked at':
      return `not looked at: ${outcome.error.message}`;
    case 'failed':
      return adviceText(outcome.error);
  }
}
