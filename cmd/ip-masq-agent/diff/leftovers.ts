import type { Dataplane, Installed, KernelFates } from '../../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import type { Family } from '../../../lib/policy/policy.ts';

/** Rules of the agent, or of ip-masq-agent v1 or v2, in a dataplane or mode that is not used: a start removes them. */
export interface Leftover {
  readonly family: Family;
  /** The dataplane's name. */
  readonly where: string;
  /** How many rules and jumps. */
  readonly rules: number;
  readonly fates: KernelFates;
}

/** What could not be looked at. */
export interface Unread {
  readonly family: Family;
  readonly where: string;
  readonly error: DataplaneError;
}

/** Looks for leftovers in one dataplane. */
export async function leftoversIn(
  { dataplane, families }: Installed,
  used: Dataplane,
): Promise<readonly (Leftover | Unread)[]> {
  const found: (Leftover | Unread)[] = [];
  const where = dataplane.name;
  for (const family of where === used.name ? [] : families) {
    try {
      const observed = await dataplane.observe(family);
      const rules = observed.remove()?.current.length;
      if (rules !== undefined) found.push({ family, where, rules, fates: observed.fates() });
    } catch (error) {
      if (!(error instanceof DataplaneError)) throw error;
      // Without the tool, or without such rules in the kernel, nothing can be left over.
      if (error.failure !== 'missing' && error.failure !== 'unsupported')
        found.push({ family, where, error });
    }
  }
  return found;
}
