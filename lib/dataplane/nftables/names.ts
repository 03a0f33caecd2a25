import type { Family } from '../../cidr/address.ts';
import type { Hook } from '../../netlink/replies.ts';

/** The names that nft(8) has for each family and the type of its addresses. */
export const NFT_FAMILY = {
  IPv4: { protocol: 'ip', type: 'ipv4_addr' },
  IPv6: { protocol: 'ip6', type: 'ipv6_addr' },
} as const satisfies Readonly<Record<Family, object>>;

/** The names of the agent's table, chains and sets in both families. */
export const TABLE = 'ip-masq-agent';
export const CHAIN = 'postrouting';
/** The chain of packets that no chain of type nat sees. */
export const INVALID_CHAIN = 'postrouting-invalid';
export const CHAINS = [CHAIN, INVALID_CHAIN] as const;
export const SET = 'not-masqueraded';
/** The set of addresses that packets must come from; absent if they may come from anywhere. */
export const FROM_SET = 'masqueraded-from';
/** The set of addresses whose packets are left alone; absent if the other one says it. */
export const NOT_FROM_SET = 'not-masqueraded-from';
/** What a set is for, by its name: one that takes the place of another has a number behind it, such as `not-masqueraded-2`. */
export function purposeOf(set: string): string {
  return set.replace(/-\d+$/, '');
}

/** The table as nft(8) names it: `ip ip-masq-agent`. */
export function tableName(family: Family, table = TABLE): string {
  return `${NFT_FAMILY[family].protocol} ${table}`;
}

/** NF_INET_POST_ROUTING and NF_ACCEPT. */
const POSTROUTING = { number: 4, policy: 1 } as const;
/** The priority `srcnat`: NF_IP_PRI_NAT_SRC. */
export const SRCNAT = 100;

/**
 * Where the chain hooks in: behind `srcnat`, the priority of kube-proxy's chain and of those of iptables. Of two NAT chains with
 * one priority the kernel runs the one that was registered later first. If the agent's masquerades before kube-proxy's, nothing
 * clears kube-proxy's mark, and with VXLAN the outer packet is masqueraded too (kubernetes#92035).
 */
export const HOOK: Hook = { type: 'nat', priority: SRCNAT + 10, ...POSTROUTING };

/** Where the other chain hooks in: before every source NAT, also of iptables and kube-proxy. */
export const INVALID_HOOK: Hook = { type: 'filter', priority: SRCNAT - 10, ...POSTROUTING };
