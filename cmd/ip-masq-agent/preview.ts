import type { MergedConfig } from '../../lib/config/config.ts';
import type { Dataplane, Plan } from '../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../lib/dataplane/error.ts';
import { compilePolicy, type Family } from '../../lib/policy/policy.ts';

/** What a sync would do in one family. */
export interface Preview {
  readonly family: Family;
  /** Undefined if nothing differs. */
  readonly plan: Plan | undefined;
  /** Why the agent cannot look for leftovers in a family that is turned off. */
  readonly unreadable?: DataplaneError;
}

/**
 * What a sync would do in a family now. Nothing is written.
 *
 * @throws {DataplaneError}
 */
export async function preview(
  dataplane: Dataplane,
  config: MergedConfig,
  family: Family,
  enableIPv6: boolean,
): Promise<Preview> {
  if (family === 'IPv4' || enableIPv6)
    return { family, plan: (await dataplane.observe(family)).plan(compilePolicy(config, family)) };
  try {
    return { family, plan: (await dataplane.observe(family)).remove() };
  } catch (error) {
    if (!(error instanceof DataplaneError)) throw error;
    // Without ip6tables nothing can be left over.
    const isNothing = error.failure === 'missing' || error.failure === 'unsupported';
    return { family, plan: undefined, ...(!isNothing && { unreadable: error }) };
  }
}
