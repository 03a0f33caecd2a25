import { ADDRESS_BITS, type Family } from '../cidr/address.ts';
import { covers, overlap, type Prefix, prefixAt, truncate } from '../cidr/prefix.ts';
import {
  difference,
  meetsSome,
  prefixesOf,
  type RangeSet,
  rangeOf,
  rangeSet,
  union,
} from '../cidr/ranges.ts';
import type { Advice } from '../text/advice.ts';
import { withOrigin } from '../text/origin.ts';
import { counted, truncated } from '../text/words.ts';
import { allowedSources, notMasqueradedDestinations } from './flatten.ts';
import type { Policy } from './policy.ts';

/** Routes to pods that are outside: packets to them, or to a part of them, are masqueraded. */
export interface MasqueradedPodRoutes extends Advice {
  readonly family: Family;
  /** What to list: pods may come and go without changing it. */
  readonly range: Prefix;
  readonly routes: number;
  /** Some of the routes, and the entries that ask for it. */
  readonly evidence: readonly string[];
}

/** Finds them on this node. */
export type FindPods = (
  policies: readonly Policy[],
  configFiles: readonly string[],
) => Promise<readonly MasqueradedPodRoutes[]>;

/** The most ranges, and the most routes to one, that are shown. */
const [MOST_RANGES, SHOWN] = [20, 3];

/** The config file that is the operator's own in the manifests. */
const OPERATOR = 'ip-masq-operator';

/**
 * What a policy masquerades of the destinations of these routes.
 *
 * @param accepted ranges for which that is meant
 * @param configFiles the names of the config files
 */
export function masqueradedPodRoutes(
  policy: Policy,
  routes: readonly { readonly prefix: Prefix; readonly text: string }[],
  accepted: readonly Prefix[],
  configFiles: readonly string[],
): readonly MasqueradedPodRoutes[] {
  const { family, entries } = policy;
  if (allowedSources(policy)?.ranges.length === 0) return [];
  const setOf = (prefixes: readonly Prefix[]) =>
    rangeSet(family, prefixes.filter((prefix) => prefix.family === family).map(rangeOf));
  const meant = union(notMasqueradedDestinations(policy), setOf(accepted));
  const found = difference(setOf(routes.map(({ prefix }) => prefix)), meant);
  const concerned = routes.filter(({ prefix }) => meets(prefix, found));
  // What masqueradeAddresses asks for makes way for what is not masqueraded.
  const exceptions = entries.filter(
    ({ verdict, prefix, origin, as }) =>
      verdict === 'masqueraded' && as?.origin !== origin && meets(prefix, found),
  );
  const configFile = configFiles.includes(OPERATOR) ? OPERATOR : (configFiles[0] ?? OPERATOR);
  return listable(found).map((range) => {
    const some = concerned.filter(({ prefix }) => overlap(range, prefix));
    const own = exceptions.filter(({ prefix }) => covers(range, prefix));
    const instead = own.length === 0 ? '' : ' instead of masqueradeCIDRs';
    return {
      family,
      range,
      routes: some.length,
      message: `${counted(some.length, 'route')} ${some.length === 1 ? 'leads' : 'lead'} to pods in ${range.text}, which the config masquerades`,
      evidence: [
        ...truncated(some, SHOWN, ({ text }) => text),
        ...truncated(own, SHOWN, ({ prefix, origin }) => `masqueraded by ${withOrigin(prefix.text, origin)}`),
      ],
      remedy: `list ${range.text}, or the whole range of pods that holds it, in nonMasqueradeCIDRs${instead} of the ConfigMap with ${configFile}; if this is intended, accept it: --accept-masqueraded=${range.text}`,
    };
  });
}

function meets(prefix: Prefix, { family, ranges }: RangeSet): boolean {
  return prefix.family === family && meetsSome(rangeOf(prefix), ranges);
}

/** The lengths between which one range holds several, so that it stays the same when pods come and go. */
const NARROWEST: Readonly<Record<Family, number>> = { IPv4: 24, IPv6: 64 };
const WIDEST: Readonly<Record<Family, number>> = { IPv4: 16, IPv6: 48 };

function listable(set: RangeSet): readonly Prefix[] {
  const { family } = set;
  const groups = Map.groupBy(prefixesOf(set), ({ address, length }) =>
    truncate(address, Math.min(length, WIDEST[family]), family),
  );
  return [...groups.values()].slice(0, MOST_RANGES).flatMap(([first, ...more]) => {
    if (first === undefined) return [];
    const differing = first.address ^ (more.at(-1)?.address ?? first.address);
    const shared = more.length === 0 ? first.length : ADDRESS_BITS[family] - differing.toString(2).length;
    const length = Math.min(shared, NARROWEST[family]);
    return prefixAt(family, truncate(first.address, length, family), length);
  });
}
