import type { Dataplane } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Host } from '../dataplane/host.ts';
import { findCommand } from '../dataplane/iptables/detect.ts';
import { inTurns, legacyTables } from '../dataplane/iptables/legacy.ts';
import { createTool } from '../dataplane/iptables/tool.ts';
import type { DataplaneOptions } from '../dataplane/options.ts';
import type { Family } from '../policy/policy.ts';
import type { Finding } from './finding.ts';

/**
 * Whether kube-proxy drops packets of the family that conntrack refuses, before they get to the agent's rules. Its
 * iptables mode does, unless nf_conntrack_tcp_be_liberal is set; its other modes do not. False if it cannot be told.
 */
export async function kubeProxyDropsInvalid(host: Host, family: Family): Promise<boolean> {
  for (const mode of ['nft', 'legacy'] as const) {
    // Running iptables-legacy would load its modules.
    if (mode === 'legacy' && !(await legacyTables(host, family))?.includes('filter')) continue;
    try {
      const command = await findCommand(host, mode);
      const tool = command && createTool(inTurns(host, mode), family, command.suffix);
      const rules = await tool?.list('KUBE-FORWARD', 'filter');
      if (rules?.some((rule) => DROPS_INVALID.test(rule))) return true;
    } catch (error) {
      if (!(error instanceof DataplaneError)) throw error;
    }
  }
  return false;
}

/** Since 1.32 there can be another match between the two. */
const DROPS_INVALID = /--ctstate INVALID .*-j DROP$/;

/** The finding that packets that conntrack refuses are to be dropped, but nothing drops them. */
export function invalidPacketFindings(
  { invalidPackets }: DataplaneOptions,
  { iptables, name }: Dataplane,
  family: Family,
  isDropped: boolean,
): readonly Finding[] {
  if (invalidPackets !== 'drop' || iptables === undefined || isDropped) return [];
  return [
    {
      kind: 'invalid-packets',
      family,
      message:
        '--invalid-packets=drop has no effect in iptables: packets that conntrack refuses leave with addresses of pods',
      evidence: [`the rules are in ${name}`, 'no rule of KUBE-FORWARD in filter drops the state INVALID'],
      remedy: 'use --backend=nftables, or --invalid-packets=count if this is known',
    },
  ];
}
