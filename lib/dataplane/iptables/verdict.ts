import type { Family } from '../../cidr/address.ts';
import { parsePrefix } from '../../cidr/prefix.ts';
import {
  difference,
  everything,
  intersection,
  nothing,
  type RangeSet,
  rangeOf,
  rangeSet,
  union,
} from '../../cidr/ranges.ts';
import { uniformVerdicts, type Verdicts } from '../../policy/verdicts.ts';
import type { KernelVerdicts } from '../dataplane.ts';
import { firstMatches, type Step } from '../first-match.ts';
import { translatedAddress } from '../translation.ts';
import { isOfNode, secondChain } from './chain.ts';
import type { IptablesObservation } from './observe.ts';
import type { KernelRule } from './rule.ts';

/** What the chain does with packets to every address: the agent's own chain, or one that ip-masq-agent v1 or v2 made. */
export function kernelVerdicts(
  { family, rules, jumps, mayHaveMoreJumps, chains, obstacle }: IptablesObservation,
  chain: string,
): KernelVerdicts {
  const unknown = (kernelRule: string) => {
    return { state: 'applied', ...uniformVerdicts(family, { verdict: undefined, kernelRule }) } as const;
  };
  if (obstacle !== undefined) return unknown(obstacle.message);
  const [jump] = jumps;
  if (jump === undefined && mayHaveMoreJumps && chains.includes(chain))
    return unknown('a rule in POSTROUTING, which iptables cannot list');
  if (jump === undefined)
    return {
      state: chains.includes(chain) ? 'no jump' : 'no chain',
      ...uniformVerdicts(family, { verdict: 'not_masqueraded' }),
    };
  if (!jumps.some((spec) => JUMP.test(spec))) return unknown(`-A POSTROUTING ${jump}`);
  if (rules === undefined) return unknown(`chain ${chain}, which iptables cannot list`);
  return { state: 'applied', ...insideVerdicts(family, rules, chain) };
}

const COMMENT = /(?:-m comment --comment (?:"(?:[^"\\]|\\.)*"|\S+) )?/.source;

/** Policies are only about destinations that are not local. */
const NOT_LOCAL = '(?:-m addrtype ! --dst-type LOCAL )?';

/** A jump for all packets. */
const JUMP = new RegExp(`^${COMMENT}${NOT_LOCAL}-[jg] \\S+$`, 's');

/** A rule as this agent, v1 and v2 write it. What any other rule does is unknown. */
const RULE = new RegExp(
  [
    '^(?:-s (?<source>\\S+) )?(?:-d (?<destination>\\S+) )?',
    '(?<partly>-p \\S+ (?:-m statistic --mode random --probability \\S+ )?)?',
    COMMENT,
    NOT_LOCAL,
    '-(?:j (?<target>RETURN|MASQUERADE|SNAT --to-source (?<to>\\S+))|g (?<next>\\S+))',
    '(?: --to-ports \\S+)?(?: --random-fully)?$',
  ].join(''),
  's',
);

interface ReadRule extends Step {
  /** Where packets come from that it leaves alone or sends to the second chain; undefined if it asks for anything else. */
  readonly sources: RangeSet | undefined;
  readonly asksSource: boolean;
  readonly goesOn: boolean;
}

function readRule(family: Family, chain: string, { chain: inside, spec }: KernelRule): ReadRule {
  const text = `-A ${inside} ${spec}`.trimEnd();
  const { source, destination, partly, target, to, next } = RULE.exec(spec)?.groups ?? {};
  const [sources, destinations] = [addresses(family, source), addresses(family, destination)];
  const as = to && translatedAddress(to);
  const isKnown = target !== undefined && sources && destinations && (to === undefined || as !== undefined);
  const goesOn = next === secondChain(chain);
  const isOfSources = !destination && !partly && (target === 'RETURN' || goesOn);
  return {
    text,
    sources: isOfSources ? sources : undefined,
    asksSource: source !== undefined,
    goesOn,
    ranges: isKnown ? destinations.ranges : everything(family).ranges,
    verdict: isKnown ? (target === 'RETURN' ? 'not_masqueraded' : 'masqueraded') : undefined,
    as,
    isPartial: !isKnown || source !== undefined || partly !== undefined,
  };
}

/** The addresses of a prefix; all without one, and undefined for a mask with holes. */
function addresses(family: Family, text: string | undefined): RangeSet | undefined {
  if (text === undefined) return everything(family);
  const parsed = parsePrefix(text);
  return 'prefix' in parsed ? rangeSet(family, [rangeOf(parsed.prefix)]) : undefined;
}

/** What the rules do with the packets that enter the first chain. */
function insideVerdicts(family: Family, rules: readonly KernelRule[], chain: string): Verdicts {
  const rulesOf = (isMeant: (name: string) => boolean) =>
    rules
      // Verdicts are those of packets of pods.
      .filter((rule) => isMeant(rule.chain) && !isOfNode(rule))
      .map((rule) => readRule(family, chain, rule));
  const first = rulesOf((name) => name === chain);
  const second = rulesOf((name) => name !== chain);
  /** Where packets come from that no rule has decided about yet, and those that go on in the second chain. */
  let [undecided, allowed] = [everything(family), nothing(family)];
  let next = 0;
  for (const { sources, asksSource, goesOn, text } of first) {
    if (undecided.ranges.length === 0 || (second.length === 0 && !(asksSource && sources))) break;
    if (sources === undefined) return uniformVerdicts(family, { verdict: undefined, kernelRule: text });
    if (goesOn) allowed = union(allowed, intersection(sources, undecided));
    undecided = difference(undecided, sources);
    next += 1;
  }
  if (second.length > 0) return { ...firstMatches(family, second), from: allowed };
  return { ...firstMatches(family, first.slice(next)), from: next === 0 ? undefined : undecided };
}
