import { type Address, type Family, formatAddress, type OwnAddress } from '../cidr/address.ts';
import type { Prefix } from '../cidr/prefix.ts';
import { PrefixMap } from '../cidr/prefix-map.ts';
import { isIn, rangeOf } from '../cidr/ranges.ts';
import { builtIn, LEFT_ALONE, MULTICAST } from '../cidr/reserved.ts';
import type { MergedConfig } from '../config/config.ts';
import type { Located, Origin } from '../text/origin.ts';

/** The types of addresses in a policy, for importers that need no more of lib/cidr. */
export type { Address, Family, OwnAddress };

/** Whether a packet leaves with the node's address instead of its own. */
export type Verdict = 'not_masqueraded' | 'masqueraded';

export const VERDICT_TEXT: Readonly<Record<Verdict, string>> = {
  not_masqueraded: 'not masqueraded',
  masqueraded: 'masqueraded',
};

/** A prefix with a verdict, and the origin that asks for it. */
export interface Entry {
  readonly prefix: Prefix;
  readonly verdict: Verdict;
  readonly origin: Origin;
  /** The address that replaces the source address; undefined if the kernel chooses it. */
  readonly as?: AddressRequest | undefined;
}

/** What the config asks for: that masqueraded packets leave with an address of the node in a range. */
export interface AddressRequest {
  /** The range that the config asks for. */
  readonly range: Prefix;
  readonly origin: Origin;
  /**
   * The node's addresses in the range, by rank, then ascending; the first is used. Secondary and deprecated addresses are
   * last, and host addresses: those that a link has with a host prefix, /32 or /128. If there is none, the kernel chooses
   * the address. Undefined if the node is not known.
   */
  readonly candidates: readonly OwnAddress[] | undefined;
}

/**
 * What happens to traffic of one family. The longest prefix that holds the destination decides; among equal prefixes,
 * the first entry. If no prefix holds it, it is masqueraded, and the kernel chooses the address.
 */
export interface Policy {
  readonly family: Family;
  /**
   * What is said of where packets come from. The longest prefix that holds the source decides: whether it is left alone, or its
   * destination decides. If no prefix holds it, it is left alone only if others are `masqueraded`.
   */
  readonly from: readonly Entry[];
  /** Link-local first, then in merge order the entries that return, the exceptions, and the destinations with an address. */
  readonly entries: readonly Entry[];
}

const compiled = new WeakMap<MergedConfig, Map<Family, Policy>>();

/**
 * The policy of one family that a merged config asks for. It is compiled once, unless it depends on the addresses of the node.
 *
 * @param own the addresses of the node; undefined if the node is not known
 */
export function compilePolicy(config: MergedConfig, family: Family, own?: readonly OwnAddress[]): Policy {
  if (config.masqueradeAddresses.length > 0) return compile(config, family, own);
  const known = compiled.get(config) ?? new Map<Family, Policy>();
  const policy = known.get(family) ?? compile(config, family, own);
  compiled.set(config, known.set(family, policy));
  return policy;
}

function compile(config: MergedConfig, family: Family, own?: readonly OwnAddress[]): Policy {
  const { nonMasqueradeCIDRs, masqueradeCIDRs, masqueradeAddresses, ...more } = config;
  const { masqueradeFromCIDRs, nonMasqueradeFromCIDRs, ...settings } = more;
  const { masqLinkLocal, masqLinkLocalIPv6, resyncInterval, configFileNames, problems, ...others } = settings;
  // A new key of a config file must do something here, or be named: those of LEFT_ALONE, and those that decide about no packet.
  others satisfies Record<string, never>;
  const leftAlone = LEFT_ALONE[family].filter(({ key }) => !config[key].value).map(builtIn);
  const entries = (located: readonly Located<Prefix>[], verdict: Verdict): Entry[] =>
    located
      .filter(({ value }) => value.family === family)
      .map(({ value, origin }) => ({ prefix: value, verdict, origin }));
  const known = [
    ...entries([...leftAlone, ...nonMasqueradeCIDRs], 'not_masqueraded'),
    ...entries(masqueradeCIDRs, 'masqueraded'),
  ];
  return {
    family,
    from: [
      ...entries(masqueradeFromCIDRs, 'masqueraded'),
      ...entries(nonMasqueradeFromCIDRs, 'not_masqueraded'),
    ],
    entries: withAddresses(known, addressEntries(masqueradeAddresses, family, own)),
  };
}

/**
 * An entry for each destination that is to be masqueraded with an address of its own. Multicast and broadcast packets inside a
 * wider destination leave as without it: protocols such as DHCP and OSPF need the address of the link.
 */
function addressEntries(
  addresses: MergedConfig['masqueradeAddresses'],
  family: Family,
  own: readonly OwnAddress[] | undefined,
): readonly Entry[] {
  const asked = addresses
    .filter(({ value: { destination } }) => destination.family === family)
    .map(({ value: { destination, range }, origin }): Entry => {
      const candidates = own && addressesIn(range, own);
      return { prefix: destination, verdict: 'masqueraded', origin, as: { range, origin, candidates } };
    });
  const map = prefixMap(asked);
  const others = MULTICAST[family]
    .filter(({ prefix }) => map.get(prefix) === undefined && map.nearestWider(prefix) !== undefined)
    .map(({ prefix, rfc }): Entry => {
      return { prefix, verdict: 'masqueraded', origin: { kind: 'built-in', basis: rfc } };
    });
  return [...asked, ...others];
}

/** The addresses in the range, by rank, then ascending. */
function addressesIn(prefix: Prefix, addresses: readonly OwnAddress[]): readonly OwnAddress[] {
  const range = rangeOf(prefix);
  return addresses
    .filter(({ family, value }) => family === prefix.family && isIn(value, range))
    .toSorted((a, b) => rankOf(a) - rankOf(b) || (a.value < b.value ? -1 : 1));
}

function rankOf({ rank = 0 }: OwnAddress): number {
  return rank;
}

/** The node's addresses in the range that are as good as the one that is used. */
export function bestAddresses({ candidates = [] }: AddressRequest): readonly OwnAddress[] {
  return candidates.filter((one) => rankOf(one) === rankOf(candidates[0] ?? one));
}

/** What the policy asks for, each range once. */
export function addressRequests({ entries }: Policy): readonly AddressRequest[] {
  const byRange = new Map<string, AddressRequest>();
  for (const { as } of entries) if (as && !byRange.has(as.range.text)) byRange.set(as.range.text, as);
  return [...byRange.values()];
}

/** Whether the policies were compiled with these addresses of the node, as far as they ask for any. */
export function areCompiledFor(own: readonly OwnAddress[], policies: readonly Policy[]): boolean {
  const textOf = (candidates: readonly OwnAddress[] = []) =>
    candidates.map((one) => `${formatAddress(one)} ${rankOf(one)}`).join();
  return policies
    .flatMap(addressRequests)
    .every(({ range, candidates }) => textOf(candidates) === textOf(addressesIn(range, own)));
}

/**
 * Both together. A destination with an address changes no verdict: of what is not masqueraded it says nothing, and the
 * exceptions inside it get its address.
 */
function withAddresses(known: readonly Entry[], destinations: readonly Entry[]): readonly Entry[] {
  if (destinations.length === 0) return known;
  const [verdicts, addresses] = [prefixMap(known), prefixMap(destinations)];
  const exceptions = known.map((entry) => {
    if (entry.verdict === 'not_masqueraded') return entry;
    return { ...entry, as: (addresses.get(entry.prefix) ?? addresses.nearestWider(entry.prefix))?.as };
  });
  const others = destinations.filter(
    ({ prefix }) =>
      verdicts.get(prefix) === undefined && verdicts.nearestWider(prefix)?.verdict !== 'not_masqueraded',
  );
  return [...exceptions, ...others];
}

/** The entries by prefix; of equal prefixes, the first. */
function prefixMap(entries: readonly Entry[]): PrefixMap<Entry> {
  const map = new PrefixMap<Entry>();
  for (const entry of entries) if (map.get(entry.prefix) === undefined) map.set(entry.prefix, entry);
  return map;
}

/** The address that packets leave with, in words; undefined if the kernel chooses it. */
export function nodeAddressText({ range, candidates }: AddressRequest): string | undefined {
  if (candidates === undefined) return `the node's address in ${range.text}`;
  return candidates[0] && formatAddress(candidates[0]);
}

/** What happens to packets: `masqueraded as 198.51.100.7`. */
export function outcomeText(verdict: Verdict, as: string | undefined): string {
  return as === undefined ? VERDICT_TEXT[verdict] : `${VERDICT_TEXT[verdict]} as ${as}`;
}

/** What becomes of packets from where nothing is said: with a range whose packets are masqueraded, all others are left alone. */
export function verdictElsewhere({ from }: Pick<Policy, 'from'>): Verdict {
  return from.some(({ verdict }) => verdict === 'masqueraded') ? 'not_masqueraded' : 'masqueraded';
}

/** What is said of sources, without what changes nothing: prefixes inside one of the same verdict. */
export function decisiveSources({ from }: Pick<Policy, 'from'>): readonly Entry[] {
  const map = prefixMap(from);
  const elsewhere = verdictElsewhere({ from });
  return from.filter(
    (one) =>
      map.get(one.prefix) === one && one.verdict !== (map.nearestWider(one.prefix)?.verdict ?? elsewhere),
  );
}

/** A function that finds the entry that decides for an address of their family; undefined if there is none. */
export function decider({ entries }: Pick<Policy, 'entries'>): (address: Address) => Entry | undefined {
  const map = prefixMap(entries);
  return (address) => map.longestMatch(address);
}
