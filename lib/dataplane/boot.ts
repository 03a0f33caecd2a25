import type { ConfigFile } from '../config/config-file.ts';
import type { Policy } from '../policy/policy.ts';
import type { Dataplane } from './dataplane.ts';
import { RESTORE_TOOL, renderChains } from './iptables/plan.ts';
import { renderTable, tableBlock } from './nftables/table.ts';
import type { RuleOptions } from './options.ts';

/**
 * The rules for the node's own tools to load at the next boot, as files whose names say by which tool. The node can have other
 * addresses then, so what is to leave with one of them is masqueraded as all else.
 */
export function bootFiles(
  policies: readonly Policy[],
  { iptables }: Dataplane,
  options: RuleOptions,
): readonly ConfigFile[] {
  const lasting = policies.map((policy) => ({
    ...policy,
    entries: policy.entries.map((entry) => ({ ...entry, as: undefined })),
  }));
  if (iptables === undefined)
    return [{ name: 'boot.nft', text: lasting.map((one) => tableBlock(renderTable(one, options))).join('') }];
  return lasting.map((policy) => ({
    name: `boot.${RESTORE_TOOL[policy.family]}-${iptables.mode}`,
    text: renderChains([policy], options),
  }));
}
