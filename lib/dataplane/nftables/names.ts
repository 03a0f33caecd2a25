import type { Family } from '../../cidr/address.ts';

/** How nft(8) calls each family and the type of its addresses. */
export const NFT_FAMILY = {
  IPv4: { protocol: 'ip', type: 'ipv4_addr' },
  IPv6: { protocol: 'ip6', type: 'ipv6_addr' },
} as const satisfies Readonly<Record<Family, object>>;

/** What is ours in each of the two families. */
export const TABLE = 'ip-masq-agent';
export const CHAIN = 'postrouting';
export const SET = 'not-masqueraded';
