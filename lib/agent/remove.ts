import type { Installed } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Family } from '../policy/policy.ts';
import { counted } from '../text/words.ts';
import { removeRules } from './reconcile.ts';
import type { RetryOptions } from './retry.ts';

/** The result of a removal in one family of one dataplane. */
interface Removal {
  readonly family: Family;
  /** The dataplane's name. */
  readonly where: string;
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

/** Removes the agent's rules from all dataplanes. A failure in one does not stop the others. */
export async function removeAll(
  installed: readonly Installed[],
  options: RetryOptions,
): Promise<readonly Removal[]> {
  const removals: Removal[] = [];
  for (const { dataplane, families } of installed) {
    for (const family of families) {
      const result = await removeRules(dataplane, family, options).then(removed, notRemoved);
      removals.push({ family, where: dataplane.name, ...result });
    }
  }
  return removals;
}

type Result = Pick<Removal, 'outcome' | 'stays'>;

function removed({ rules, stays }: Awaited<ReturnType<typeof removeRules>>): Result {
  return { outcome: rules === undefined ? { kind: 'nothing' } : { kind: 'removed', rules }, stays };
}

function notRemoved(error: unknown): Result {
  if (!(error instanceof DataplaneError)) throw error;
  if (error.failure === 'unsupported') return { outcome: { kind: 'nothing' }, stays: [] };
  const kind = error.failure === 'missing' ? 'not looked at' : 'failed';
  return { outcome: { kind, error }, stays: [] };
}

/** The removal in one line. */
export function describeRemoval({ family, where, outcome }: Removal): string {
  return `${family}, ${where}: ${describeOutcome(outcome)}`;
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
      return `${outcome.error.message}; ${outcome.error.remedy}`;
  }
}
