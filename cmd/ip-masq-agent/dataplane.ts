import { patient } from '../../lib/agent/patient.ts';
import { retrying } from '../../lib/agent/retry.ts';
import type { Dataplane } from '../../lib/dataplane/dataplane.ts';
import type { Host } from '../../lib/dataplane/host.ts';
import { openDataplane } from '../../lib/dataplane/open.ts';
import type { FlagValues } from './flags.ts';
import { dataplaneOptions, retryOptions } from './options.ts';

/**
 * The dataplane of the agent with these flags, to be read.
 *
 * @throws {DataplaneError}
 */
export async function readableDataplane(flags: FlagValues, host: Host): Promise<Dataplane> {
  const options = retryOptions(flags);
  return patient(await retrying(() => openDataplane(dataplaneOptions(flags), host), options), options);
}
