import type { PortRange } from '../ports.ts';

/** Which of the two kernel APIs iptables speaks: nf_tables, or the older ip_tables. */
export type IptablesMode = 'nft' | 'legacy';

export interface IptablesOptions {
  readonly mode: IptablesMode | 'auto';
  readonly chain: string;
  readonly randomFully: boolean;
  /** Empty for any port. */
  readonly toPorts: readonly PortRange[];
}

/** XT_EXTENSION_MAXNAMELEN of the kernel, less the terminating zero. */
const MAX_CHAIN_LENGTH = 28;

/** Whether iptables takes the text for the name of a chain of our own. */
export function isChainName(text: string): boolean {
  return text.length <= MAX_CHAIN_LENGTH && /^[A-Za-z0-9_][A-Za-z0-9_-]*$/.test(text);
}
