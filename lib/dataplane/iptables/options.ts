import type { PortRange } from '../ports.ts';

/** Which of the two kernel APIs iptables speaks: nf_tables, or the older ip_tables. */
export type IptablesMode = 'nft' | 'legacy';

/** What the command line decides about the chain. */
export interface IptablesOptions {
  readonly mode: IptablesMode | 'auto';
  readonly chain: string;
  readonly randomFully: boolean;
  /** Empty for any port. */
  readonly toPorts: readonly PortRange[];
}

/** XT_EXTENSION_MAXNAMELEN of the kernel, less the terminating zero. */
const MAX_CHAIN_LENGTH = 28;

/** Chains that are there anyway, and verdicts: the agent would empty the former, and no chain can have the latter's name. */
const BUILT_IN = [
  'PREROUTING',
  'INPUT',
  'FORWARD',
  'OUTPUT',
  'POSTROUTING',
  'ACCEPT',
  'DROP',
  'QUEUE',
  'RETURN',
];

/** Whether the text may be the name of a chain of our own: not one of iptables', kubelet's or kube-proxy's. */
export function isChainName(text: string): boolean {
  const valid = text.length <= MAX_CHAIN_LENGTH && /^[A-Za-z0-9_][A-Za-z0-9_-]*$/.test(text);
  return valid && !BUILT_IN.includes(text) && !text.startsWith('KUBE-');
}
