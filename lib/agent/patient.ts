import type { Dataplane } from '../dataplane/dataplane.ts';
import type { Host } from '../dataplane/host.ts';
import { openDataplane } from '../dataplane/open.ts';
import type { DataplaneOptions } from '../dataplane/options.ts';
import { type RetryOptions, retrying } from './retry.ts';

/** The same dataplane, with observations that wait for a busy kernel. */
export function patient(dataplane: Dataplane, options: RetryOptions): Dataplane {
  return {
    ...dataplane,
    observe: (family, care) => retrying(() => dataplane.observe(family, care), options),
  };
}

/**
 * Opens the dataplane that an agent with these options uses. Its observations wait for a busy kernel.
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
