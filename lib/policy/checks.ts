import { trafficText } from '../cidr/prefix.ts';
import { everything, rangeOf, rangeSet, sameRanges, sizeOf } from '../cidr/ranges.ts';
import { LEFT_ALONE } from '../cidr/reserved.ts';
import type { Check, MergedConfig } from '../config/config.ts';
import type { Origin } from '../text/origin.ts';
import { type Assertion, breaches, decidingOrigin, describeBreaches } from './assertions.ts';
import { flagOf } from './decision.ts';
import { allowedSources, flatten, type Segment } from './flatten.ts';
import { compilePolicy, type Family, type Policy } from './policy.ts';

/** Without severity, which its kind says. */
type CheckProblem = ReturnType<Check>[number];

/** An assertion, and the flag that gives it. */
export interface GivenAssertion extends Assertion {
  readonly flag: string;
  /** The line that gives the flag, if it is in a file, in words. */
  readonly line?: string;
}

/** An assertion as its flag has it. */
export type GivenTraffic = Omit<GivenAssertion, 'flag' | 'verdict'>;

/**
 * The checks of a config: they judge each family for which the agent keeps rules.
 *
 * @param assertions of these families
 * @param dropsInvalid whether packets that conntrack refuses are dropped
 */
export function checksOf(
  families: readonly Family[],
  assertions: readonly GivenAssertion[],
  dropsInvalid = false,
): Check {
  return (config, nonMasqueradeOrigins) =>
    families.flatMap((family) => {
      const policy = compilePolicy(config, family);
      const segments = flatten(policy);
      const own = assertions.filter(({ prefix }) => prefix.family === family);
      return [
        everythingInside(policy, segments) ?? nothingInside(config, family, segments, nonMasqueradeOrigins),
        dropsInvalid ? dropFromAnywhere(config, family, nonMasqueradeOrigins) : undefined,
        ...own.map((assertion) => brokenAssertion(assertion, config, policy, segments)),
      ].flatMap((found) => found ?? []);
    });
}

/** Found if only ranges with a key of their own are left alone, unless an exception for the whole family says that it is meant. */
function nothingInside(
  config: MergedConfig,
  family: Family,
  segments: readonly Segment[],
  [at, other]: readonly Origin[],
): CheckProblem | undefined {
  const { configFileNames, masqueradeCIDRs } = config;
  const isInside = segments.some(
    ({ entry, ...range }) =>
      entry.verdict === 'not_masqueraded' && flagOf(config, family, range) === undefined,
  );
  const listed = masqueradeCIDRs.flatMap(({ value }) => (value.family === family ? [rangeOf(value)] : []));
  const isMeant = sameRanges(rangeSet(family, listed).ranges, everything(family).ranges);
  if (isInside || isMeant) return undefined;
  const topics = LEFT_ALONE[family].map(({ topic }) => topic).join(' and ');
  const cause =
    configFileNames.length > 0
      ? `the config files exclude no ${family} range from masquerading`
      : `there is no config file, and no ${family} range is excluded by default`;
  const [pods, all] = family === 'IPv4' ? ['10.244.0.0/16', '0.0.0.0/0'] : ['"fd00:10:244::/56"', '"::/0"'];
  return {
    kind: 'nothing-inside',
    message: `${cause}, so all ${family} traffic of pods except ${topics} is masqueraded, even between pods`,
    remedy: `list the ranges of pods, and of networks with routes to them, in nonMasqueradeCIDRs, such as ${pods}; if this is intended, write masqueradeCIDRs: [${all}]`,
    ...(at && { at }),
    ...(other && { other }),
  };
}

/** Found if nothing is masqueraded, be it by one entry or by several that add up; points to the widest. */
function everythingInside(policy: Policy, segments: readonly Segment[]): CheckProblem | undefined {
  const { family, from, entries } = policy;
  const inside = segments.filter(({ entry }) => entry.verdict === 'not_masqueraded');
  const isInside = sizeOf(inside) === sizeOf(everything(family).ranges);
  if (!isInside && allowedSources(policy)?.ranges.length !== 0) return undefined;
  const [widest] = (isInside ? entries : from)
    .filter(({ verdict, origin }) => verdict === 'not_masqueraded' && origin.kind === 'file')
    .toSorted((a, b) => a.prefix.length - b.prefix.length);
  return {
    kind: 'everything-inside',
    message: isInside
      ? `the config excludes all ${family} addresses from masquerading, so nothing is masqueraded`
      : `nonMasqueradeFromCIDRs leaves no ${family} source, so nothing is masqueraded`,
    remedy: 'no action is needed if this is intended and every destination has a route back to the pods',
    ...(widest && { at: widest.origin }),
  };
}

/** Found if packets would be dropped wherever they come from: on asymmetric routes, conntrack refuses ordinary ones (kubernetes#94861). */
function dropFromAnywhere(
  { masqueradeFromCIDRs: from }: MergedConfig,
  family: Family,
  [list]: readonly Origin[],
): CheckProblem | undefined {
  if (from.some(({ value }) => value.family === family)) return undefined;
  const at = from[0]?.origin ?? list;
  const pods = family === 'IPv4' ? '10.244.0.0/16' : '"fd00:10:244::/56"';
  return {
    kind: 'drop-from-anywhere',
    message: `masqueradeFromCIDRs lists no ${family} range, so --invalid-packets=drop would also drop packets that are not of pods`,
    remedy: `list the ranges of pods there, such as masqueradeFromCIDRs: [${pods}], or use --invalid-packets=count`,
    ...(at && { at }),
  };
}

function brokenAssertion(
  assertion: GivenAssertion,
  config: MergedConfig,
  policy: Policy,
  segments: readonly Segment[],
): CheckProblem | undefined {
  const { prefix, from, flag, line = 'the flag' } = assertion;
  const found = breaches(policy, segments, assertion);
  if (found === undefined) return undefined;
  const deciding = decidingOrigin(config, prefix.family, found);
  const shouldNameSources = from === undefined && found.sourcesLeftAlone.length > 0;
  return {
    kind: 'assertion',
    message: `the assertion --${flag}=${trafficText(assertion)} is broken: ${describeBreaches(config, prefix.family, found)}`,
    remedy: shouldNameSources
      ? `correct the config files; if they are right, say in ${line} whose packets are meant: "${prefix.text} from CIDR"`
      : `correct the config files; if they are right, change ${line}`,
    ...(deciding && { at: deciding }),
  };
}
