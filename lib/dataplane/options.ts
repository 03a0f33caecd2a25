import type { Family } from '../cidr/address.ts';
import type { PortOptions } from './ports.ts';

/** The kernel API that iptables uses: nf_tables, or the older ip_tables. */
export type IptablesMode = 'nft' | 'legacy';

/** What is done with packets that connection tracking refuses, and that would leave with the address of a pod. */
export const INVALID_PACKETS = ['count', 'drop', 'off'] as const;

export type InvalidPackets = (typeof INVALID_PACKETS)[number];

/** The name of the chain in the agents of this kind. */
export const DEFAULT_CHAIN = 'IP-MASQ-AGENT';

/** Options of the rules that are the same for all dataplanes. */
export interface RuleOptions extends PortOptions {
  /** Only of nftables; absent as `off`. */
  readonly invalidPackets?: InvalidPackets;
  /** The most rules of a chain, or elements and rules of a table, that are read; absent for any number. */
  readonly mostObjects?: number;
  /** The chain of the iptables dataplane. With nftables, it may be a leftover of an earlier run. */
  readonly chain: string;
}

export interface IptablesOptions extends RuleOptions {
  readonly mode: IptablesMode | 'auto';
}

/** The kernel API that keeps the rules. */
type Backend = 'iptables' | 'nftables';

export interface DataplaneOptions extends IptablesOptions {
  readonly backend: Backend | 'auto';
  /** The families for which there are to be rules. */
  readonly families: readonly Family[];
}
