import type { PortRange } from './ports.ts';

/** Which of its two kernel APIs iptables uses: nf_tables, or the older ip_tables. */
export type IptablesMode = 'nft' | 'legacy';

/** What the command line decides about the rules, in whichever dataplane. */
export interface RuleOptions {
  /** The chain of the iptables dataplane; an earlier run may have left it, so the nftables dataplane knows it too. */
  readonly chain: string;
  readonly randomFully: boolean;
  /** Empty for any port. */
  readonly toPorts: readonly PortRange[];
}

/** The same for iptables. */
export interface IptablesOptions extends RuleOptions {
  readonly mode: IptablesMode | 'auto';
}

/** What the command line decides about the rules, and where they are kept. */
export interface DataplaneOptions extends IptablesOptions {
  readonly backend: 'iptables' | 'nftables';
}
