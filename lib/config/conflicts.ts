import { FAMILIES, type Family } from '../cidr/address.ts';
import type { Prefix } from '../cidr/prefix.ts';
import { PrefixMap } from '../cidr/prefix-map.ts';
import { LINK_LOCAL } from '../cidr/reserved.ts';
import type { Located, Origin } from '../text/origin.ts';
import type { MasqueradeAddress, ParsedConfig } from './config.ts';
import { formatDuration } from './duration.ts';
import { LINK_LOCAL_FLAGS, type NameOf } from './keys.ts';
import { type Problem, type ProblemKind, problem } from './problem.ts';

const FROM = 'masqueradeFromCIDRs';
/** Each two lists say the opposite: of destinations, and of sources. */
const LISTS: readonly CidrKey[] = ['nonMasqueradeCIDRs', 'masqueradeCIDRs'];
const SOURCE_LISTS: readonly CidrKey[] = [FROM, 'nonMasqueradeFromCIDRs'];
const ADDRESSES = 'masqueradeAddresses';

type CidrKey = NameOf<'cidrs'>;

interface Item extends Located<Prefix> {
  readonly list: CidrKey;
}

function conflict(
  kind: ProblemKind,
  { origin: at }: Located<unknown>,
  message: string,
  remedy: string,
  other?: Located<unknown>,
): Problem {
  return problem(kind, { at, ...(other && { other: other.origin }), message, remedy });
}

/** All that two origins disagree about, or say twice; of one kind in order of the config files. */
export function* findConflicts(
  configs: readonly ParsedConfig[],
  masqLinkLocal: Readonly<Record<Family, boolean>>,
): Generator<Problem, void> {
  const itemsOf = (list: CidrKey) =>
    configs.flatMap((config) => config[list].map((item) => ({ ...item, list })));
  yield* intervalConflicts(configs);
  const firsts = yield* repeatedItems(LISTS.flatMap(itemsOf));
  yield* linkLocalFlagConflicts(configs, 'IPv4');
  yield* linkLocalFlagConflicts(configs, 'IPv6');
  yield* linkLocalItemConflicts(firsts, configs, masqLinkLocal);
  yield* nestedItems(firsts, leftAlone(masqLinkLocal));
  yield* nestedItems(yield* repeatedItems(SOURCE_LISTS.flatMap(itemsOf)), []);
  yield* fromConflicts(configs);
  yield* addressConflicts(configs, [...firsts, ...leftAlone(masqLinkLocal)]);
}

function* fromConflicts(configs: readonly ParsedConfig[]): Generator<Problem, void> {
  const items = configs.flatMap((config) => config[FROM]);
  const limiting = items.find(({ value: { family } }) =>
    configs.some((config) => config[FROM].every(({ value }) => value.family !== family)),
  );
  if (limiting === undefined) return;
  const message = `${FROM} limits what all config files ask for, also those that do not set it: only packets from these ranges are masqueraded`;
  const remedy = 'nothing to do if meant so, and if the ranges of all pods are listed';
  yield conflict('limits-others', limiting, message, remedy);
}

/** What the lists of addresses say twice, in two ways, or without effect. */
function* addressConflicts(
  configs: readonly ParsedConfig[],
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

function repeatedDestination(item: Located<MasqueradeAddress>, first: Located<MasqueradeAddress>): Problem {
  const { destination, range } = item.value;
  if (first.value.range.text === range.text) return duplicate({ ...item, value: destination }, first);
  const message = `packets to ${destination.text} leave with an address in ${range.text} here, but with one in ${first.value.range.text} in another item`;
  return conflict('address-range', item, message, 'keep one of the two items', first);
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
    const around = destinations.nearestWider(destination);
    if (decides?.list === 'nonMasqueradeCIDRs' && !used.has(item)) yield unusedAddress(item, decides);
    else if (around?.value.range.text === range.text)
      yield covered({ ...item, value: destination }, { ...around, value: around.value.destination });
  }
}

/** The value of the longest prefix that holds all of the prefix. */
function nearest<Value>(map: PrefixMap<Value>, prefix: Prefix): Value | undefined {
  return map.get(prefix) ?? map.nearestWider(prefix);
}

function unusedAddress(item: Located<MasqueradeAddress>, decides: Item): Problem {
  const { text } = item.value.destination;
  const message = `packets to ${text} need no address: ${decides.value.text} is not masqueraded`;
  const remedy = 'remove the item, or add what is to be masqueraded to masqueradeCIDRs';
  return conflict('address-unused', item, message, remedy, decides);
}

function intervalConflicts(configs: readonly ParsedConfig[]): Problem[] {
  const [first, ...others] = configs.flatMap(({ resyncInterval }) => resyncInterval ?? []);
  if (first === undefined) return [];
  return others
    .filter(({ value }) => value !== first.value)
    .map((one) => {
      const message = `resyncInterval is ${formatDuration(one.value)} here, but ${formatDuration(first.value)} in another config file`;
      const remedy = 'set it in one config file only, or to the same value';
      return conflict('resync-interval', one, message, remedy, first);
    });
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
  return conflict('duplicate', item, `${item.value.text} is listed twice`, 'one of the two can go', first);
}

function inBothLists(item: Item, first: Item): Problem {
  const message = `${item.value.text} is in ${first.list} and in ${item.list}`;
  return conflict('both-lists', item, message, 'remove it from one of the two lists', first);
}

function linkLocalFlagConflicts(configs: readonly ParsedConfig[], family: Family): Problem[] {
  const key = LINK_LOCAL_FLAGS[family];
  const flags = configs.flatMap((config) => config[key] ?? []);
  const on = flags.find(({ value }) => value);
  if (on === undefined) return [];
  return flags
    .filter(({ value }) => !value)
    .map((one) => {
      const message = `${key} is false here, but true in another config file: true wins`;
      return conflict('link-local-flag', one, message, 'make the config files agree', on);
    });
}

/** The entry that decides for link-local as a whole, if it is not as the flag says. A narrower entry is meant as an exception. */
function linkLocalItemConflicts(
  items: readonly Item[],
  configs: readonly ParsedConfig[],
  masqLinkLocal: Readonly<Record<Family, boolean>>,
): Problem[] {
  const all = new PrefixMap<Item>();
  for (const item of items) all.set(item.value, item);
  return FAMILIES.flatMap((family) => {
    const { prefix } = LINK_LOCAL[family];
    const flag = LINK_LOCAL_FLAGS[family];
    if (!masqLinkLocal[family]) {
      const item = all.get(prefix);
      if (item?.list !== 'masqueradeCIDRs') return [];
      const message = `${prefix.text} is in ${item.list}, but ${flag} is false; the flag wins: it is not masqueraded`;
      return conflict('link-local-entry', item, message, `remove the entry, or set ${flag}: true`);
    }
    const item = nearest(all, prefix);
    if (item?.list !== 'nonMasqueradeCIDRs') return [];
    const isItself = item.value.text === prefix.text;
    const message = `${item.value.text} is in ${item.list}${isItself ? '' : ` and contains ${prefix.text}`}, but ${flag} is true; this entry wins: ${prefix.text} is not masqueraded`;
    const remedy = isItself ? 'remove the entry' : `add ${prefix.text} to masqueradeCIDRs`;
    const on = configs.flatMap((config) => config[flag] ?? []).find(({ value }) => value);
    return conflict('link-local-entry', item, message, `${remedy}, or set ${flag}: false`, on);
  });
}

/** The link-local prefixes that the agent itself leaves alone. */
function leftAlone(masqLinkLocal: Readonly<Record<Family, boolean>>): readonly Item[] {
  return [LINK_LOCAL.IPv4, LINK_LOCAL.IPv6]
    .filter(({ prefix }) => !masqLinkLocal[prefix.family])
    .map(({ prefix, rfc }) => ({
      value: prefix,
      origin: { kind: 'built-in', basis: rfc },
      list: 'nonMasqueradeCIDRs',
    }));
}

function* nestedItems(items: readonly Item[], builtIn: readonly Item[]): Generator<Problem, void> {
  const all = new PrefixMap<Item>();
  for (const item of [...items, ...builtIn]) all.set(item.value, item);
  for (const item of items) {
    const around = all.nearestWider(item.value);
    if (around === undefined) continue;
    if (around.list === item.list) yield covered(item, around);
    // An exception from a default, or from its own config file's entry, is meant as one.
    else if (around.origin.kind === 'file' && configFileOf(around.origin) !== configFileOf(item.origin))
      yield oppositeNested(item, around);
  }
}

function covered(item: Located<Prefix>, around: Located<Prefix>): Problem {
  const message = `${item.value.text} is already covered by ${around.value.text}`;
  return conflict('covered', item, message, 'it can go', around);
}

function oppositeNested(item: Item, around: Item): Problem {
  const message = `${item.value.text} in ${item.list} is inside ${around.value.text} in ${around.list} of another config file`;
  const remedy = 'nothing to do if meant so: the longest prefix decides';
  return conflict('opposite-nested', item, message, remedy, around);
}

function configFileOf(origin: Origin): string {
  return origin.kind === 'file' ? origin.configFile : '';
}
