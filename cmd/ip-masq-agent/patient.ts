import { type RetryOptions, retrying } from '../../lib/agent/retry.ts';
import type { Dataplane } from '../../lib/dataplane/dataplane.ts';
import type { Host } from '../../lib/dataplane/host.ts';
import { type DataplaneOptions, openDataplane } from '../../lib/dataplane/open.ts';

/** The dataplane, whose readings wait for a busy kernel. */
export function patient(dataplane: Dataplane, options: RetryOptions): Dataplane {
  return {
    ...dataplane,
    observe: (family) => retrying(() => dataplane.observe(family), options),
    survey: (families) => retrying(() => dataplane.survey(families), options),
  };
}

/**
 * The dataplane of the agent with these options, to be read.
 *
 * @throws {DataplaneError}
 */
export async function openPatiently(
  options: DataplaneOptions,
  host: Host,
  retry: RetryOptions,
): Promise<Dataplane> {
  return patient(await retrying(() => openDataplane(options, host), retry), retry);
}
