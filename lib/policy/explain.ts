import { ADDRESS_BITS, type Address, formatAddress } from '../cidr/address.ts';
import { covers, prefixAt } from '../cidr/prefix.ts';
import { decider, type Entry, type Policy, type Verdict } from './policy.ts';

/** What the policy says about an address, and why. */
export interface Explanation {
  readonly address: Address;
  /** The address as RFC 5952 has it. */
  readonly text: string;
  readonly verdict: Verdict;
  /** The entry that decides; undefined where none holds the address, which is masqueraded then. */
  readonly decidedBy: Entry | undefined;
  /** The other entries that hold the address, the most specific first. */
  readonly overridden: readonly Entry[];
}

/** Why an address of the policy's family is masqueraded, or is not. */
export function explain(policy: Policy, address: Address): Explanation {
  const decidedBy = decider(policy)(address);
  const host = prefixAt(address.family, address.value, ADDRESS_BITS[address.family]);
  const overridden = policy.entries
    .filter((entry) => entry !== decidedBy && covers(entry.prefix, host))
    .toSorted((a, b) => b.prefix.length - a.prefix.length);
  return {
    address,
    text: formatAddress(address),
    verdict: decidedBy?.verdict ?? 'masquerade',
    decidedBy,
    overridden,
  };
}
