import type { PortOptions } from './ports.ts';

/** The kernel API that iptables uses: nf_tables, or the older ip_tables. */
export type IptablesMode = 'nft' | 'legacy';

/** Options of the rules that are the same for all dataplanes. */
export interface RuleOptions extends PortOptions {
  /** The chain of the iptables dataplane. With nftables, it may be a leftover of an earlier run. */
  readonly chain: string;
}

/** Options of the rules, and the iptables mode. */
export interface IptablesOptions extends RuleOptions {
  readonly mode: IptablesMode | 'auto';
}

/** Options of the rules, and the dataplane that keeps them. */
export interface DataplaneOptions extends IptablesOptions {
  readonly backend: 'iptables' | 'nftables';
}
