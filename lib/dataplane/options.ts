import type { PortOptions } from './ports.ts';

/** The kernel API that iptables uses: nf_tables, or the older ip_tables. */
export type IptablesMode = 'nft' | 'legacy';

/** The name of the chain in the agents of this kind. */
export const DEFAULT_CHAIN = 'IP-MASQ-AGENT';

/** Options of the rules that are the same for all dataplanes. */
export interface RuleOptions extends PortOptions {
  /** The chain of the iptables dataplane. With nftables, it may be a leftover of an earlier run. */
  readonly chain: string;
}

/** Options of the rules, and the iptables mode. */
export interface IptablesOptions extends RuleOptions {
  readonly mode: IptablesMode | 'auto';
}

/** The kernel API that keeps the rules. */
export type Backend = 'iptables' | 'nftables';

/** Options of the rules, and the dataplane that keeps them. */
export interface DataplaneOptions extends IptablesOptions {
  readonly backend: Backend | 'auto';
}
