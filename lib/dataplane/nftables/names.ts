import type { Family } from '../../cidr/address.ts';

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

/** The table as nft(8) names it: `ip ip-masq-agent`. */
export function tableName(family: Family): string {
  return `${NFT_FAMILY[family].protocol} ${TABLE}`;
}

/**
 * The chain's priority, as nft(8) writes it: behind `srcnat`, which kube-proxy's chain and those of iptables have. Of
 * two NAT chains with one priority the kernel runs the one that was registered later first. If the agent's masquerades
 * before kube-proxy's, nothing clears kube-proxy's mark, and with VXLAN the outer packet is masqueraded too
 * (kubernetes#92035).
 */
export const PRIORITY = 'srcnat + 10';

/** The priority of the other chain: before every source NAT, also of iptables and kube-proxy. */
export const INVALID_PRIORITY = 'srcnat - 10';

/** How each of its rules begins: all other packets pay one test. */
export const INVALID_MATCH = 'ct state invalid ';

/** The element for all addresses that no other element holds, as nft(8) writes it. */
export const CATCH_ALL = '*';
