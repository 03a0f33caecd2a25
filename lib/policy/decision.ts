import { ADDRESS_BITS, type Address, type Family, type OwnAddress } from '../cidr/address.ts';
import { covers, prefixAt } from '../cidr/prefix.ts';
import { isIn, type Range, rangeOf } from '../cidr/ranges.ts';
import { LEFT_ALONE } from '../cidr/reserved.ts';
import type { MergedConfig } from '../config/config.ts';
import { type Located, withOrigin } from '../text/origin.ts';
import { allowedSources } from './flatten.ts';
import {
  type AddressRequest,
  compilePolicy,
  decider,
  decisiveSources,
  type Entry,
  type Policy,
  type Verdict,
  verdictElsewhere,
} from './policy.ts';

/** What the config says about an address, and why. */
export interface Decision {
  readonly address: Address;
  readonly verdict: Verdict;
  /** The address that the packets leave with; undefined if they are not masqueraded, or if no destination has one for them. */
  readonly as: AddressRequest | undefined;
  readonly source: SourceDecision;
  /** The entry that decides; undefined if none holds the address, which is then masqueraded. */
  readonly decidedBy: Entry | undefined;
  /** The boolean key because of which the address is masqueraded, such as masqLinkLocal. */
  readonly flag: Flag | undefined;
  /** The other entries that hold the address, the most specific first. */
  readonly overridden: readonly Entry[];
}

interface Flag extends Located<boolean> {
  readonly key: string;
}

/** What the config says about where a packet comes from. */
export interface SourceDecision {
  /** The address that it comes from; undefined if it comes from any address of which the destination decides. */
  readonly address: Address | undefined;
  /** What is said of sources, without what changes nothing. */
  readonly listed: Policy['from'];
  /** What decides for the address. */
  readonly match: Entry | undefined;
  /** Whether the packet is left alone because of where it comes from. */
  readonly isLeftAlone: boolean;
}

/**
 * Decides about packets to an address, and says why.
 *
 * @param source the address that they come from, of the same family; undefined for any that is listed
 * @param own the addresses of the node; undefined if the node is not known
 */
export function decide(
  config: MergedConfig,
  address: Address,
  source?: Address,
  own?: readonly OwnAddress[],
): Decision {
  const { family } = address;
  const policy = compilePolicy(config, family, own);
  const decidedBy = decider(policy)(address);
  const host = prefixAt(family, address.value, ADDRESS_BITS[family]);
  const overridden = policy.entries
    .filter((entry) => entry !== decidedBy && covers(entry.prefix, host))
    .toSorted((a, b) => b.prefix.length - a.prefix.length);
  const from = sourceDecision(policy, source);
  const verdict = from.isLeftAlone ? 'not_masqueraded' : (decidedBy?.verdict ?? 'masqueraded');
  return {
    address,
    verdict,
    as: verdict === 'masqueraded' ? decidedBy?.as : undefined,
    source: from,
    decidedBy,
    flag: decidedBy === undefined ? flagOf(config, family, rangeOf(host)) : undefined,
    overridden,
  };
}

function sourceDecision(policy: Policy, address: Address | undefined): SourceDecision {
  const listed = decisiveSources(policy);
  const match = address && decider({ entries: listed })(address);
  const isLeftAlone =
    address === undefined
      ? allowedSources(policy)?.ranges.length === 0
      : (match?.verdict ?? verdictElsewhere(policy)) === 'not_masqueraded';
  return { address, listed, match, isLeftAlone };
}

/** The boolean key that is about all of a range, and decides there if no entry does; undefined if there is none. */
export function flagOf(config: MergedConfig, family: Family, { first, last }: Range): Flag | undefined {
  const about = LEFT_ALONE[family].find(({ prefix }) => {
    const leftAlone = rangeOf(prefix);
    return isIn(first, leftAlone) && isIn(last, leftAlone);
  });
  return about && { key: about.key, ...config[about.key] };
}

/** Why addresses without an entry are masqueraded. */
export function noEntryText(flag: Flag | undefined): string {
  if (flag === undefined) return 'no entry matches it';
  return `${withOrigin(flag.key, flag.origin)} is true, and no entry matches it`;
}
