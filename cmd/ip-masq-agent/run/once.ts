import type { Sync } from '../../../lib/agent/loop.ts';
import { SystemError } from '../../../lib/text/error.ts';
import { openLeftovers, type Surroundings } from './watchers.ts';

/**
 * What follows the only sync of --once.
 *
 * @throws {SystemError} if the kernel does not hold the rules
 */
export async function finishOnce(surroundings: Surroundings, sync: Sync): Promise<void> {
  if (!sync.inSync)
    throw new SystemError(
      'another program has changed the rules before they were read back: find it, or run without --once, which repairs them',
    );
  const leftovers = await openLeftovers(surroundings, sync);
  const failure = await leftovers.removeOnce(() => sync.dataplane, sync.policies);
  if (failure !== undefined) surroundings.log.warn(failure);
}
