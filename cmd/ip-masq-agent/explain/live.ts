import { parsePrefix } from '../../../lib/cidr/prefix.ts';
import { isIn, rangeOf } from '../../../lib/cidr/ranges.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import type { Dataplane, KernelFates, KernelVerdict } from '../../../lib/dataplane/dataplane.ts';
import type { Host } from '../../../lib/dataplane/host.ts';
import { verdictAt } from '../../../lib/dataplane/kernel-fates.ts';
import { explainForeign, type ForeignVerdict } from '../../../lib/neighbours/find.ts';
import { bpfLinks } from '../../../lib/neighbours/machine-findings.ts';
import type { NodeRules } from '../../../lib/neighbours/read-node.ts';
import { type Decision, decide } from '../../../lib/policy/decision.ts';
import { type Address, keptFamilies } from '../../../lib/policy/policy.ts';

/** What happens to traffic to an address. */
export interface Explained {
  /** What the config says. */
  readonly decision: Decision;
  /** Whether the agent keeps rules for the family; false for IPv6 if it is not enabled. */
  readonly isKept: boolean;
  /** What the kernel does; undefined without --live. */
  readonly live: LiveVerdict | undefined;
}

/** What the kernel of this node does with traffic to an address. */
export interface LiveVerdict {
  /** Whether it is an address of the node itself, which never meets the agent's rules. */
  readonly isLocal: boolean;
  readonly kernel: KernelVerdict;
  /** Whether the agent's rules in the kernel do what the config says. */
  readonly agrees: boolean;
  readonly foreign: ForeignVerdict;
  /** Links of programs that may masquerade past all rules. */
  readonly bpf: readonly string[];
}

/** What the config says about an address. */
export function explained(config: MergedConfig, address: Address, enableIPv6: boolean): Explained {
  const decision = decide(config, address);
  return { decision, isKept: keptFamilies(enableIPv6).includes(address.family), live: undefined };
}

/**
 * What the config says about addresses, and what the kernel does.
 *
 * @throws {DataplaneError}
 */
export async function explainedLive(
  config: MergedConfig,
  addresses: readonly Address[],
  enableIPv6: boolean,
  dataplane: Dataplane,
  node: NodeRules,
  host: Host,
): Promise<readonly Explained[]> {
  const observed: Partial<Record<Address['family'], KernelFates>> = {};
  const answers: Explained[] = [];
  const bpf = await bpfLinks(host);
  for (const address of addresses) {
    const said = explained(config, address, enableIPv6);
    const seen = observed[address.family] ?? (await dataplane.observe(address.family)).fates();
    observed[address.family] = seen;
    const kernel = verdictAt(seen, address);
    const foreign = await explainForeign(node, address);
    const agrees = agree(said, kernel);
    answers.push({ ...said, live: { isLocal: await isLocal(host, address), kernel, agrees, foreign, bpf } });
  }
  return answers;
}

/** Whether the kernel agrees with the config. If a family is off, the kernel must hold none of the agent's rules. */
function agree({ decision, isKept }: Explained, { state, verdict }: KernelVerdict): boolean {
  if (!isKept) return state === 'no chain';
  return state === 'applied' && verdict === decision.verdict;
}

/** Whether the address is one of the node itself, to which packets never meet the agent's rules. */
async function isLocal(host: Host, address: Address): Promise<boolean> {
  const prefixes = address.family === 'IPv4' ? await localIPv4(host) : await localIPv6(host);
  return prefixes.some((text) => {
    const parsed = parsePrefix(text);
    if ('error' in parsed) return false;
    return isIn(address.value, rangeOf(parsed.prefix));
  });
}

/** The LOCAL addresses of the routing tables, as in `addrtype --dst-type LOCAL` of iptables-extensions(8). */
async function localIPv4(host: Host): Promise<readonly string[]> {
  const trie = (await host.readText('/proc/net/fib_trie')) ?? '';
  return Array.from(
    trie.matchAll(/\|-- (\S+)\n\s+\/(\d+) host LOCAL/g),
    ([, address, length]) => `${address}/${length}`,
  );
}

async function localIPv6(host: Host): Promise<readonly string[]> {
  const interfaces = (await host.readText('/proc/net/if_inet6')) ?? '';
  return Array.from(interfaces.matchAll(/^([0-9a-f]{32}) /gm), ([, digits = '']) => {
    return `${digits.replace(/(.{4})(?=.)/g, '$1:')}/128`;
  });
}
