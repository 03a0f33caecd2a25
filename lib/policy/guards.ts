import { everything, rangeOf, rangeSet, sizeOf } from '../cidr/ranges.ts';
import { LINK_LOCAL } from '../cidr/reserved.ts';
import type { Guard, MergedConfig } from '../config/config.ts';
import type { Origin } from '../text/origin.ts';
import { flatten, type Segment } from './flatten.ts';
import { compilePolicy, type Family, type Policy } from './policy.ts';
import { breaches, describeBreaches, type PromisedRange, placeOf, promiseText } from './promises.ts';

type Finding = ReturnType<Guard>[number];

/** A promise as it was given, for messages. */
export interface GivenPromise extends PromisedRange {
  /** The flag that gives it. */
  readonly flag: string;
}

/**
 * The guards of a config: they judge each family for which the agent keeps rules.
 *
 * @param promises of these families
 */
export function guardOf(families: readonly Family[], promises: readonly GivenPromise[]): Guard {
  return (config, lists) =>
    families.flatMap((family) => {
      const policy = compilePolicy(config, family);
      const segments = flatten(policy);
      const own = promises.filter(({ prefix }) => prefix.family === family);
      return [
        nothingInside(config, family, segments, lists),
        everythingInside(policy, segments),
        ...own.map((promise) => brokenPromise(promise, policy, segments, config)),
      ].flatMap((found) => found ?? []);
    });
}

/** Found if only link-local is left alone, unless an exception for the whole family says that it is meant. */
function nothingInside(
  { sources, masqueradeCIDRs }: MergedConfig,
  family: Family,
  segments: readonly Segment[],
  [at, other]: readonly Origin[],
): Finding | undefined {
  const linkLocal = rangeOf(LINK_LOCAL[family].prefix);
  const isInside = segments.some(
    ({ first, last, entry }) =>
      entry.verdict === 'not_masqueraded' && (first < linkLocal.first || last > linkLocal.last),
  );
  const isMeant = masqueradeCIDRs.some(({ value }) => value.family === family && value.length === 0);
  if (isInside || isMeant) return undefined;
  const cause =
    sources.length > 0
      ? `no ${family} range but link-local is inside`
      : `no source, and no ${family} default but link-local`;
  const [pods, all] = family === 'IPv4' ? ['10.244.0.0/16', '0.0.0.0/0'] : ['"fd00:10:244::/56"', '"::/0"'];
  return {
    kind: 'nothing-inside',
    message: `${cause}: all other ${family} traffic of pods is masqueraded, between pods too`,
    remedy: `list the ranges of pods and nodes in nonMasqueradeCIDRs, such as ${pods}, or write masqueradeCIDRs: [${all}] if this is meant`,
    ...(at && { at }),
    ...(other && { other }),
  };
}

/** Found if no address is masqueraded, be it by one entry or by several that add up; points to the widest. */
function everythingInside({ family, entries }: Policy, segments: readonly Segment[]): Finding | undefined {
  const inside = rangeSet(
    family,
    segments.filter(({ entry }) => entry.verdict === 'not_masqueraded'),
  );
  if (sizeOf(inside) !== sizeOf(everything(family))) return undefined;
  const [widest] = entries
    .filter(({ verdict, origin }) => verdict === 'not_masqueraded' && origin.kind === 'file')
    .toSorted((a, b) => a.prefix.length - b.prefix.length);
  return {
    kind: 'everything-inside',
    message: `all ${family} addresses are inside: nothing is masqueraded`,
    remedy: 'nothing to do if meant so: the outside must have a route back to the pods',
    ...(widest && { at: widest.origin }),
  };
}

function brokenPromise(
  promise: GivenPromise,
  policy: Policy,
  segments: readonly Segment[],
  config: MergedConfig,
): Finding | undefined {
  const { flag, prefix, from } = promise;
  const found = breaches(policy, segments, promise);
  if (found === undefined) return undefined;
  const at = placeOf(config, prefix.family, found);
  const isOfAll = from === undefined && found.elsewhere.length > 0;
  return {
    kind: 'promise',
    message: `the promise --${flag}=${promiseText(promise)} is broken: ${describeBreaches(config, prefix.family, found)}`,
    remedy: isOfAll
      ? `correct the sources; if they are right, say in the flag whose packets are meant: "${prefix.text} from CIDR"`
      : 'correct the sources; if they are right, change the flag',
    ...(at && { at }),
  };
}
