import { FAMILIES } from '../cidr/address.ts';
import type { Prefix } from '../cidr/prefix.ts';
import { PrefixMap } from '../cidr/prefix-map.ts';
import { builtIn, LEFT_ALONE } from '../cidr/reserved.ts';
import type { Located, Origin } from '../text/origin.ts';
import type { ParsedConfig } from './config.ts';
import { formatDuration } from './duration.ts';
import type { MergedKeys, NameOf } from './keys.ts';
import { type Problem, type ProblemKind, problem } from './problem.ts';

/** Each two lists say the opposite: of destinations, and of sources. */
const LISTS = ['nonMasqueradeCIDRs', 'masqueradeCIDRs'] as const;
const SOURCE_LISTS = ['masqueradeFromCIDRs', 'nonMasqueradeFromCIDRs'] as const;

/** What is left alone unless its key is true. */
const RANGES_WITH_KEY = FAMILIES.flatMap((family) => LEFT_ALONE[family]);

interface Item extends Located<Prefix> {
  /** What is said of the prefix: the list that it is in, or the range of its address. */
  readonly says: string;
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
  merged: MergedKeys,
): Generator<Problem, void> {
  const itemsOf = (list: NameOf<'cidrs'>) =>
    configs.flatMap((config) => config[list].map((item): Item => ({ ...item, says: list })));
  yield* intervalConflicts(configs);
  const entries = yield* repeatedItems(LISTS.flatMap(itemsOf), inBothLists);
  yield* flagConflicts(configs, merged);
  yield* entryConflicts(entries, merged);
  yield* nestedItems(entries, leftAlone(merged));
  yield* nestedItems(yield* repeatedItems(SOURCE_LISTS.flatMap(itemsOf), inBothLists), []);
  yield* repeatedItems(configs.flatMap(addressItems), twoAddresses);
}

/** The destinations of a config file that have an address. */
function addressItems({ masqueradeAddresses }: ParsedConfig): readonly Item[] {
  return masqueradeAddresses.map(({ value: { destination, range }, origin }) => {
    return { value: destination, says: range.text, origin };
  });
}

function twoAddresses(item: Item, first: Item): Problem {
  const message = `packets to ${item.value.text} leave with an address in ${item.says} here, but with one in ${first.says} in another item`;
  return conflict('address-range', item, message, 'keep one of the two items', first);
}

/** The items by prefix; of equal prefixes, the last. */
function mapOf(items: readonly Item[]): PrefixMap<Item> {
  const map = new PrefixMap<Item>();
  for (const item of items) map.set(item.value, item);
  return map;
}

/** The item of the longest prefix that holds all of the prefix. */
function nearest(map: PrefixMap<Item>, prefix: Prefix): Item | undefined {
  return map.get(prefix) ?? map.nearestWider(prefix);
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
function* repeatedItems(
  items: readonly Item[],
  disagreement: (item: Item, first: Item) => Problem,
): Generator<Problem, readonly Item[]> {
  const firsts = new Map<string, Item>();
  for (const item of items) {
    const { text } = item.value;
    const first = firsts.get(text);
    if (first === undefined) firsts.set(text, item);
    else yield first.says === item.says ? duplicate(item, first) : disagreement(item, first);
  }
  return [...firsts.values()];
}

function duplicate(item: Item, first: Item): Problem {
  return conflict('duplicate', item, `${item.value.text} is listed twice`, 'remove one of them', first);
}

function inBothLists(item: Item, first: Item): Problem {
  const message = `${item.value.text} is in ${first.says} and in ${item.says}`;
  return conflict('both-lists', item, message, 'remove it from one of the two lists', first);
}

function flagConflicts(configs: readonly ParsedConfig[], merged: MergedKeys): Problem[] {
  return RANGES_WITH_KEY.flatMap(({ key, topic }) => {
    const on = merged[key];
    if (!on.value) return [];
    const off = configs.flatMap((config) => config[key] ?? []).filter(({ value }) => !value);
    const message = `${key} is false here, but true in another config file: true wins`;
    return off.map((one) => conflict(`${topic}-flag`, one, message, 'make the config files agree', on));
  });
}

/** The entry that decides for a range as a whole, if it is not as its key says. A narrower entry is meant as an exception. */
function entryConflicts(items: readonly Item[], merged: MergedKeys): Problem[] {
  const all = mapOf(items);
  return RANGES_WITH_KEY.flatMap(({ key, topic, prefix }) => {
    const on = merged[key];
    if (!on.value) {
      const item = all.get(prefix);
      if (item?.says !== 'masqueradeCIDRs') return [];
      const message = `${prefix.text} is in ${item.says}, but ${key} is false; the key wins: it is not masqueraded`;
      return conflict(`${topic}-entry`, item, message, `remove the entry, or set ${key}: true`);
    }
    const item = nearest(all, prefix);
    if (item?.says !== 'nonMasqueradeCIDRs') return [];
    const isItself = item.value.text === prefix.text;
    const message = `${item.value.text} is in ${item.says}${isItself ? '' : ` and contains ${prefix.text}`}, but ${key} is true; this entry wins: ${prefix.text} is not masqueraded`;
    const remedy = isItself ? 'remove the entry' : `add ${prefix.text} to masqueradeCIDRs`;
    return conflict(`${topic}-entry`, item, message, `${remedy}, or set ${key}: false`, on);
  });
}

/** What the agent itself leaves alone. */
function leftAlone(merged: MergedKeys): readonly Item[] {
  return RANGES_WITH_KEY.filter(({ key }) => !merged[key].value).map((range) => ({
    ...builtIn(range),
    says: 'nonMasqueradeCIDRs',
  }));
}

function* nestedItems(items: readonly Item[], ranges: readonly Item[]): Generator<Problem, void> {
  const all = mapOf([...items, ...ranges]);
  for (const item of items) {
    const around = all.nearestWider(item.value);
    if (around === undefined) continue;
    if (around.says === item.says) yield covered(item, around);
    // An exception from a default, or from its own config file's entry, is meant as one.
    else if (around.origin.kind === 'file' && configFileOf(around.origin) !== configFileOf(item.origin))
      yield oppositeNested(item, around);
  }
}

function covered(item: Item, around: Item): Problem {
  const message = `${item.value.text} is already covered by ${around.value.text}`;
  return conflict('covered', item, message, 'you can remove it', around);
}

function oppositeNested(item: Item, around: Item): Problem {
  const message = `${item.value.text} in ${item.says} is inside ${around.value.text} in ${around.says} of another config file`;
  const remedy = 'no action is needed if this is intended: the longest prefix decides';
  return conflict('opposite-nested', item, message, remedy, around);
}

function configFileOf(origin: Origin): string {
  return origin.kind === 'file' ? origin.configFile : '';
}
