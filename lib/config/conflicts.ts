import type { Family } from '../cidr/address.ts';
import type { Prefix } from '../cidr/prefix.ts';
import { PrefixMap } from '../cidr/prefix-map.ts';
import { LINK_LOCAL } from '../cidr/reserved.ts';
import type { Located, Origin } from '../text/origin.ts';
import type { MasqueradeAddress, SourceConfig } from './config.ts';
import { formatDuration } from './duration.ts';
import { CIDR_KEYS, LINK_LOCAL_FLAGS, type NameOf } from './keys.ts';
import { type Problem, problem } from './problem.ts';

/** The lists of destinations. */
const LISTS: readonly CidrKey[] = ['nonMasqueradeCIDRs', 'masqueradeCIDRs'];
const OTHER_LISTS = CIDR_KEYS.filter((list) => !LISTS.includes(list));
const FROM = 'masqueradeFromCIDRs';
const ADDRESSES = 'masqueradeAddresses';

type CidrKey = NameOf<'cidrs'>;

/** An item of one of the lists. */
interface Item extends Located<Prefix> {
  readonly list: CidrKey;
}

/** All that two origins disagree about, or say twice; of one kind in order of the sources. */
export function* findConflicts(
  configs: readonly SourceConfig[],
  masqLinkLocal: Readonly<Record<Family, boolean>>,
): Generator<Problem, void> {
  const itemsOf = (list: CidrKey) =>
    configs.flatMap((config) => config[list].map((item) => ({ ...item, list })));
  yield* intervalConflicts(configs);
  const firsts = yield* repeatedItems(LISTS.flatMap(itemsOf));
  yield* linkLocalFlagConflicts(configs, 'IPv4');
  yield* linkLocalFlagConflicts(configs, 'IPv6');
  yield* linkLocalItemConflicts(firsts, masqLinkLocal);
  yield* nestedItems(firsts, leftAlone(masqLinkLocal));
  for (const list of OTHER_LISTS) yield* nestedItems(yield* repeatedItems(itemsOf(list)), []);
  yield* fromConflicts(configs);
  yield* addressConflicts(configs, [...firsts, ...leftAlone(masqLinkLocal)]);
}

/** Which source limits what others ask for. */
function* fromConflicts(configs: readonly SourceConfig[]): Generator<Problem, void> {
  const items = configs.flatMap((config) => config[FROM]);
  const limiting = items.find(({ value: { family } }) =>
    configs.some((config) => config[FROM].every(({ value }) => value.family !== family)),
  );
  if (limiting === undefined) return;
  yield problem('limits-others', {
    at: limiting.origin,
    message: `${FROM} limits what all sources ask for, also those that do not set it: only packets from these ranges are masqueraded`,
    remedy: 'nothing to do if meant so, and if the ranges of all pods are listed',
  });
}

/** What the lists of addresses say twice, in two ways, or without effect. */
function* addressConflicts(
  configs: readonly SourceConfig[],
  verdicts: readonly Item[],
): Generator<Problem, void> {
  const destinations = new PrefixMap<Located<MasqueradeAddress>>();
  const firsts: Located<MasqueradeAddress>[] = [];
  for (const item of configs.flatMap((config) => config[ADDRESSES])) {
    const first = destinations.get(item.value.destination);
    if (first !== undefined) {
      yield repeatedDestination(item, first);
      continue;
    }
    destinations.set(item.value.destination, item);
    firsts.push(item);
  }
  if (firsts.length > 0) yield* needlessAddresses(firsts, destinations, verdicts);
}

function repeatedDestination(
  { value: { destination, range }, origin }: Located<MasqueradeAddress>,
  first: Located<MasqueradeAddress>,
): Problem {
  if (first.value.range.text === range.text) return duplicate({ value: destination, origin }, first);
  return problem('address-range', {
    at: origin,
    other: first.origin,
    message: `packets to ${destination.text} leave with an address in ${range.text} here, but with one in ${first.value.range.text} in another item`,
    remedy: 'keep one of the two items',
  });
}

/** Destinations in which nothing is masqueraded, and those inside another with the same range. */
function* needlessAddresses(
  items: readonly Located<MasqueradeAddress>[],
  destinations: PrefixMap<Located<MasqueradeAddress>>,
  verdicts: readonly Item[],
): Generator<Problem, void> {
  const all = new PrefixMap<Item>();
  for (const item of verdicts) all.set(item.value, item);
  const exceptions = verdicts.filter(
    (item) => item.list === 'masqueradeCIDRs' && all.get(item.value) === item,
  );
  const used = new Set(exceptions.map(({ value }) => nearest(destinations, value)));
  for (const item of items) {
    const { destination, range } = item.value;
    const decides = nearest(all, destination);
    const around = destinations.nearestAround(destination);
    if (decides?.list === 'nonMasqueradeCIDRs' && !used.has(item)) yield unusedAddress(item, decides);
    else if (around?.value.range.text === range.text)
      yield covered({ value: destination, origin: item.origin }, around.value.destination, around.origin);
  }
}

/** The value of the longest prefix that holds all of the prefix. */
function nearest<Value>(map: PrefixMap<Value>, prefix: Prefix): Value | undefined {
  return map.get(prefix) ?? map.nearestAround(prefix);
}

function unusedAddress({ value, origin }: Located<MasqueradeAddress>, decides: Item): Problem {
  return problem('address-unused', {
    at: origin,
    other: decides.origin,
    message: `packets to ${value.destination.text} need no address: ${decides.value.text} is not masqueraded`,
    remedy: 'remove the item, or add what is to be masqueraded to masqueradeCIDRs',
  });
}

function intervalConflicts(configs: readonly SourceConfig[]): Problem[] {
  const [first, ...others] = configs.flatMap(({ resyncInterval }) => resyncInterval ?? []);
  if (first === undefined) return [];
  return others
    .filter(({ value }) => value !== first.value)
    .map(({ value, origin }) =>
      problem('resync-interval', {
        at: origin,
        other: first.origin,
        message: `resyncInterval is ${formatDuration(value)} here, but ${formatDuration(first.value)} in another source`,
        remedy: 'set it in one source only, or to the same value',
      }),
    );
}

/** Finds a conflict for each item whose prefix an earlier one has; returns the others. */
function* repeatedItems(items: readonly Item[]): Generator<Problem, readonly Item[]> {
  const firsts = new Map<string, Item>();
  for (const item of items) {
    const { text } = item.value;
    const first = firsts.get(text);
    if (first === undefined) firsts.set(text, item);
    else yield first.list === item.list ? duplicate(item, first) : inBothLists(item, first);
  }
  return [...firsts.values()];
}

function duplicate(item: Located<Prefix>, first: Located<unknown>): Problem {
  return problem('duplicate', {
    at: item.origin,
    other: first.origin,
    message: `${item.value.text} is listed twice`,
    remedy: 'one of the two can go',
  });
}

function inBothLists(item: Item, first: Item): Problem {
  return problem('both-lists', {
    at: item.origin,
    other: first.origin,
    message: `${item.value.text} is in ${first.list} and in ${item.list}`,
    remedy: 'remove it from one of the two lists',
  });
}

function linkLocalFlagConflicts(configs: readonly SourceConfig[], family: Family): Problem[] {
  const key = LINK_LOCAL_FLAGS[family];
  const flags = configs.flatMap((config) => config[key] ?? []);
  const on = flags.find(({ value }) => value);
  if (on === undefined) return [];
  return flags
    .filter(({ value }) => !value)
    .map(({ origin }) =>
      problem('link-local-flag', {
        at: origin,
        other: on.origin,
        message: `${key} is false here, but true in another source: true wins`,
        remedy: 'make the sources agree',
      }),
    );
}

function linkLocalItemConflicts(
  items: readonly Item[],
  masqLinkLocal: Readonly<Record<Family, boolean>>,
): Problem[] {
  return items.flatMap(({ value, list, origin }) => {
    const flag = LINK_LOCAL_FLAGS[value.family];
    const masquerade = masqLinkLocal[value.family];
    if (value.text !== LINK_LOCAL[value.family].prefix.text || masquerade === (list === 'masqueradeCIDRs'))
      return [];
    const outcome = masquerade
      ? 'this entry wins: it is not masqueraded'
      : 'the flag wins: it is not masqueraded';
    return problem('link-local-entry', {
      at: origin,
      message: `${value.text} is in ${list}, but ${flag} is ${masquerade}; ${outcome}`,
      remedy: `remove the entry, or set ${flag}: ${!masquerade}`,
    });
  });
}

/** The link-local prefixes that the agent itself leaves alone. */
function leftAlone(masqLinkLocal: Readonly<Record<Family, boolean>>): readonly Item[] {
  return [LINK_LOCAL.IPv4, LINK_LOCAL.IPv6]
    .filter(({ prefix }) => !masqLinkLocal[prefix.family])
    .map(({ prefix, rfc }) => ({
      value: prefix,
      origin: { kind: 'built-in', reason: rfc },
      list: 'nonMasqueradeCIDRs',
    }));
}

function* nestedItems(items: readonly Item[], builtIn: readonly Item[]): Generator<Problem, void> {
  const all = new PrefixMap<Item>();
  for (const item of [...items, ...builtIn]) all.set(item.value, item);
  for (const item of items) {
    const around = all.nearestAround(item.value);
    if (around === undefined) continue;
    if (around.list === item.list) yield covered(item, around.value, around.origin);
    // An exception from a default, or from its own source's entry, is meant as one.
    else if (around.origin.kind === 'file' && sourceOf(around.origin) !== sourceOf(item.origin))
      yield oppositeNested(item, around);
  }
}

function covered(item: Located<Prefix>, around: Prefix, other: Origin): Problem {
  return problem('covered', {
    at: item.origin,
    other,
    message: `${item.value.text} is already covered by ${around.text}`,
    remedy: 'it can go',
  });
}

function oppositeNested(item: Item, around: Item): Problem {
  return problem('opposite-nested', {
    at: item.origin,
    other: around.origin,
    message: `${item.value.text} in ${item.list} is inside ${around.value.text} in ${around.list} of another source`,
    remedy: 'nothing to do if meant so: the longest prefix decides',
  });
}

function sourceOf(origin: Origin): string {
  return origin.kind === 'file' ? origin.source : '';
}
