import { ADDRESS_BITS, type Address, formatAddress } from '../cidr/address.ts';
import { covers, prefixAt } from '../cidr/prefix.ts';
import { LINK_LOCAL } from '../cidr/reserved.ts';
import type { MergedConfig } from '../config/config.ts';
import type { Located } from '../text/origin.ts';
import { compilePolicy, decider, type Entry, type Verdict } from './policy.ts';

/** What the config says about an address, and why. */
export interface Decision {
  readonly address: Address;
  /** The canonical text of the address (RFC 5952). */
  readonly text: string;
  readonly verdict: Verdict;
  /** The entry that decides; undefined if none holds the address, which is then masqueraded. */
  readonly decidedBy: Entry | undefined;
  /** masqLinkLocal or masqLinkLocalIPv6, if it is why a link-local address is masqueraded. */
  readonly flag: Located<boolean> | undefined;
  /** The other entries that hold the address, the most specific first. */
  readonly overridden: readonly Entry[];
}

/** Decides about an address, and says why. */
export function decide(config: MergedConfig, address: Address): Decision {
  const { family } = address;
  const policy = compilePolicy(config, family);
  const decidedBy = decider(policy)(address);
  const host = prefixAt(family, address.value, ADDRESS_BITS[family]);
  const overridden = policy.entries
    .filter((entry) => entry !== decidedBy && covers(entry.prefix, host))
    .toSorted((a, b) => b.prefix.length - a.prefix.length);
  const flag = family === 'IPv4' ? config.masqLinkLocal : config.masqLinkLocalIPv6;
  const isLinkLocal = covers(LINK_LOCAL[family].prefix, host);
  return {
    address,
    text: formatAddress(address),
    verdict: decidedBy?.verdict ?? 'masquerade',
    decidedBy,
    flag: decidedBy === undefined && isLinkLocal ? flag : undefined,
    overridden,
  };
}
