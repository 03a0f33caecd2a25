import type { Host } from '../dataplane/host.ts';
import { noAnswer } from '../dataplane/netlink.ts';
import type { DataplaneOptions } from '../dataplane/options.ts';
import { TAKEN_PORTS, takenAdvice } from '../dataplane/ports.ts';
import { allLinks } from '../netlink/links.ts';
import { unmeantSources } from '../node/masquerade-address.ts';
import type { Policy } from '../policy/policy.ts';
import type { Finding } from './finding.ts';

/** The findings about the address of masqueraded packets, in families for which no config file chooses it. */
export async function uplinkFindings(host: Host, policies: readonly Policy[]): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  for (const policy of policies) {
    const { family, entries } = policy;
    const isChosen = entries.some(
      ({ prefix, as }) => prefix.length === 0 && as?.candidates?.[0] !== undefined,
    );
    if (host.netlink === undefined || isChosen) continue;
    const messages = (await unmeantSources(policy).catch(noAnswer)) ?? [];
    const everything = family === 'IPv4' ? '0.0.0.0/0' : '::/0';
    const remedy = `give the link an address of global scope to which other hosts have a route; or list the destination ${everything} in masqueradeAddresses, with the range of the nodes' addresses; so that packets of the node itself are not masqueraded, list the ranges of pods in masqueradeFromCIDRs`;
    for (const message of messages)
      findings.push({ kind: 'uplink-address', family, message, evidence: [], remedy });
  }
  return findings;
}

/** The findings about ports of --to-ports that are NodePorts, or ports of tunnels that the node has. */
export async function portFindings(
  host: Host,
  { toPorts }: Pick<DataplaneOptions, 'toPorts'>,
): Promise<readonly Finding[]> {
  if (toPorts.length === 0) return [];
  const links = host.netlink && (await allLinks().catch(noAnswer));
  const kinds = new Set(links?.map(({ kind }) => kind));
  const taken = TAKEN_PORTS.filter(
    ({ link }) => link === undefined || links === undefined || kinds.has(link),
  );
  const advice = takenAdvice(toPorts, taken);
  return advice === undefined ? [] : [{ kind: 'taken-ports', ...advice, evidence: [] }];
}
