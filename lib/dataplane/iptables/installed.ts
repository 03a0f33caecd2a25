import type { Family } from '../../cidr/address.ts';
import type { Dataplane } from '../dataplane.ts';
import { DataplaneError } from '../error.ts';
import type { Host } from '../host.ts';
import { builtInRules, detectMode } from './detect.ts';
import { iptablesDataplane } from './iptables.ts';
import { usesLegacyNat } from './legacy.ts';
import type { IptablesMode, IptablesOptions } from './options.ts';
import { createTool } from './tool.ts';
import { inTurns } from './turns.ts';

/** A mode of iptables that the machine has, and the families in which it can hold rules of ours. */
export interface InstalledIptables {
  readonly mode: IptablesMode;
  readonly dataplane: Dataplane;
  readonly families: readonly Family[];
  /**
   * The rules in the built-in chains of its `nat`, whoever made them.
   *
   * @throws {DataplaneError}
   */
  builtInRules(family: Family): Promise<readonly string[]>;
}

/** Every mode of iptables that is installed. */
export async function installedIptables(
  options: IptablesOptions,
  host: Host,
): Promise<readonly InstalledIptables[]> {
  const installed: InstalledIptables[] = [];
  for (const mode of ['nft', 'legacy'] as const) {
    try {
      const detected = await detectMode(host, mode);
      installed.push({
        mode,
        dataplane: iptablesDataplane(detected, options, host),
        families: await familiesInUse(mode, host),
        builtInRules: (family) => builtInRules(createTool(inTurns(host, mode), family, detected.suffix)),
      });
    } catch (error) {
      if (!(error instanceof DataplaneError) || error.failure !== 'missing') throw error;
    }
  }
  return installed;
}

async function familiesInUse(mode: IptablesMode, host: Host): Promise<readonly Family[]> {
  const families: Family[] = [];
  for (const family of ['IPv4', 'IPv6'] as const) {
    if (mode === 'nft' || (await usesLegacyNat(host, family)) !== false) families.push(family);
  }
  return families;
}
