import type { Dataplane } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Place } from '../dataplane/open.ts';
import type { Family } from '../policy/policy.ts';
import { counted } from '../text/words.ts';
import { reconcile } from './reconcile.ts';
import type { RetryOptions } from './retry.ts';

/** What became of the rules of ours in one family of one dataplane. */
export interface Removal {
  readonly family: Family;
  /** The dataplane's name. */
  readonly where: string;
  readonly outcome:
    | { readonly kind: 'nothing' }
    /** Everything that is gone, jumps included. */
    | { readonly kind: 'removed'; readonly rules: readonly string[] }
    /** The tool of the family is not installed: nobody can tell. */
    | { readonly kind: 'not looked at'; readonly error: DataplaneError }
    | { readonly kind: 'failed'; readonly error: DataplaneError };
}

/** Removes all that is ours, wherever it can be. What fails in one place does not keep it from the others. */
export async function removeAll(
  places: readonly Place[],
  options: RetryOptions,
): Promise<readonly Removal[]> {
  const removals: Removal[] = [];
  for (const { dataplane, families } of places) {
    for (const family of families)
      removals.push({ family, where: dataplane.name, outcome: await remove(dataplane, family, options) });
  }
  return removals;
}

async function remove(
  dataplane: Dataplane,
  family: Family,
  options: RetryOptions,
): Promise<Removal['outcome']> {
  try {
    const goals = [{ family, policy: undefined }];
    const plans = await reconcile(async () => dataplane, goals, {
      ...options,
      recall: false,
      onApply: () => {},
    });
    const plan = plans.get(family);
    return plan === undefined ? { kind: 'nothing' } : { kind: 'removed', rules: plan.current };
  } catch (error) {
    if (!(error instanceof DataplaneError)) throw error;
    if (error.failure === 'unsupported') return { kind: 'nothing' };
    return { kind: error.failure === 'missing' ? 'not looked at' : 'failed', error };
  }
}

/** What was done in one place, in a sentence. */
export function describeRemoval({ family, where, outcome }: Removal): string {
  return `${family}, ${where}: ${describeOutcome(outcome)}`;
}

function describeOutcome(outcome: Removal['outcome']): string {
  switch (outcome.kind) {
    case 'nothing':
      return 'nothing of ours';
    case 'removed': {
      const { length } = outcome.rules;
      return length === 0 ? 'removed an empty chain of ours' : `removed ${counted(length, 'rule')} of ours`;
    }
    case 'not looked at':
      return `not looked at: ${outcome.error.message}`;
    case 'failed':
      return `${outcome.error.message}; ${outcome.error.remedy}`;
  }
}

/** The places and families other than those in which rules are kept. */
export function leftoverPlaces(
  places: readonly Place[],
  used: Dataplane,
  kept: readonly Family[],
): readonly Place[] {
  return places.map(({ dataplane, families }) => ({
    dataplane,
    families: dataplane.name === used.name ? families.filter((family) => !kept.includes(family)) : families,
  }));
}
