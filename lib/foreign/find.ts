import { ADDRESS_BITS, type Address, type Family, parseAddress } from '../cidr/address.ts';
import {
  complement,
  formatRange,
  intersection,
  nothing,
  prefixesOf,
  type RangeSet,
  rangeOf,
  rangeSet,
  sameRanges,
  union,
} from '../cidr/ranges.ts';
import { MULTICAST } from '../cidr/reserved.ts';
import { type Condition, leavesBy, type Rule } from '../dataplane/rule.ts';
import { translatedAddress } from '../dataplane/translation.ts';
import { NetlinkError } from '../netlink/error.ts';
import { allowedSources, notMasqueradedDestinations } from '../policy/flatten.ts';
import type { Policy } from '../policy/policy.ts';
import type { Advice } from '../text/advice.ts';
import { formatOrigin } from '../text/origin.ts';
import { truncated, truncatedText } from '../text/words.ts';
import { type Author, authorOf, isAccepted, UNKNOWN_ID } from './author.ts';
import type { BaseChain } from './base-chain.ts';
import { AGENT_LIMITS, Budget, MOST_FINDINGS, MOST_FOUND, TooManyRules } from './budget.ts';
import { type ReachedRule, visitDeciding } from './reach.ts';
import type { NodeRules } from './read-node.ts';

/** What a foreign rule may do to packets, against the config: give them an address of the node, keep them from getting it, or write one into them. */
export type Effect = 'masquerades' | 'exempts' | 'untracks' | 'rewrites';

/** A foreign rule that may decide otherwise than the config about packets to some destinations. */
export interface ForeignRule {
  /** Equal for the same rule in the same chain at another time, whatever the policy. */
  readonly key: string;
  readonly effect: Effect;
  readonly family: Family;
  readonly chainText: string;
  /** The rules that lead to it, as their tool writes them; the last one is the rule itself. */
  readonly path: readonly string[];
  readonly destinations: RangeSet;
  /** What else must be so for the rule to decide about a packet. */
  readonly conditions: readonly string[];
  readonly author: Author;
  /** Whether it gives packets an address: then the author's remedy is for it, also if it exempts. */
  readonly translates: boolean;
  /** The command that deletes the rule; undefined if it is not known. */
  readonly deletion?: string | undefined;
}

/** Foreign rules of one author in one base chain with one effect: a CNI plugin makes one for each pod. */
export interface ForeignGroup
  extends Pick<ForeignRule, 'key' | 'effect' | 'family' | 'chainText' | 'author'> {
  readonly rules: readonly ForeignRule[];
}

/** Foreign rules of one author that may decide otherwise than the policies: whose, where, and what they concern. */
export interface ForeignFinding extends Advice {
  /** Equal for the same author in the same base chain at another time. */
  readonly key: string;
  readonly effect: Effect;
  readonly family: Family;
  readonly author: string;
  readonly isAccepted: boolean;
  readonly rules: number;
  /** Whether all of them ask for sources in a range, such as that of Docker's own network. */
  readonly limitsSources: boolean;
  /** The rules, those that lead to them, and what else they ask for. */
  readonly evidence: readonly string[];
}

export interface ForeignFindings {
  /** At most MOST_FINDINGS. */
  readonly findings: readonly ForeignFinding[];
  /** What could not be read or analysed, in words; the same words as long as it is the same. */
  readonly unread: readonly string[];
}

/** What packets a search is about. */
export interface Interest {
  /** Destinations that foreign rules must not masquerade. */
  readonly inside: RangeSet;
  /** Destinations whose packets foreign rules must not keep from the agent's rules. */
  readonly outside: RangeSet;
  /** The only sources of packets that the agent masquerades; undefined for any. */
  readonly sources?: RangeSet | undefined;
  /** Whether an address is the node's own, so that packets may as well leave with it. */
  readonly isOwn: (address: Address) => boolean;
}

/** No address is the node's own: for whoever cannot know. */
const NOT_OWN = () => false;

/**
 * What must not happen to packets that a policy decides about. Nobody masquerades multicast.
 *
 * @param policy only a family if the policy is not known: then any masquerading is of interest, but nothing that prevents it
 */
export function interestOf(policy: Policy | Family, isOwn: Interest['isOwn'] = NOT_OWN): Interest {
  const family = familyOf(policy);
  const multicast = rangeSet(
    family,
    MULTICAST[family].map(({ prefix }) => rangeOf(prefix)),
  );
  if (typeof policy === 'string') return { inside: complement(multicast), outside: nothing(family), isOwn };
  const inside = notMasqueradedDestinations(policy);
  return { inside, outside: complement(union(inside, multicast)), sources: allowedSources(policy), isOwn };
}

function familyOf(policy: Policy | Family): Family {
  return typeof policy === 'string' ? policy : policy.family;
}

/**
 * Finds the rules of a node that may decide otherwise than the policies, by author and base chain.
 *
 * @param policies a family for one that is not known
 * @param accepted what the operator knows and accepts, as --accept-foreign names it
 */
export async function findForeign(
  { baseChains, unread }: Pick<NodeRules, 'baseChains' | 'unread'>,
  policies: readonly (Policy | Family)[],
  accepted: readonly string[] = [],
  isOwn: Interest['isOwn'] = NOT_OWN,
  budget = new Budget(AGENT_LIMITS),
): Promise<ForeignFindings> {
  const words = new Set(unread);
  const groups: { readonly group: ForeignGroup; readonly policy: Policy | Family }[] = [];
  for (const policy of policies) {
    const found = await findForeignRules(baseChains, interestOf(policy, isOwn), budget);
    for (const what of found.unread) words.add(what);
    for (const group of groupForeignRules(found.rules)) groups.push({ group, policy });
  }
  if (groups.length > MOST_FINDINGS) words.add(new TooManyRules(`${MOST_FINDINGS} findings`).message);
  const findings = groups
    .slice(0, MOST_FINDINGS)
    .map(({ group, policy }) => finding(group, policy, accepted));
  return { findings, unread: [...words] };
}

/** What foreign rules mean for one address. */
export interface ForeignVerdict {
  /** Rules that may masquerade packets to it, whatever the policy says of it. */
  readonly masquerading: readonly ForeignRule[];
  /** Rules that may keep packets to it from being masqueraded. */
  readonly exempting: readonly ForeignRule[];
  /** What could not be read or analysed, in words. */
  readonly unread: readonly string[];
}

/**
 * Which foreign rules decide about packets to an address that is not one of the node's own.
 *
 * @param from where they come from; undefined for anywhere
 * @param links by which they leave; none if that is not known
 */
export async function explainForeign(
  { baseChains, unread }: Pick<NodeRules, 'baseChains' | 'unread'>,
  address: Address,
  from?: Address,
  links: readonly string[] = [],
  isOwn: Interest['isOwn'] = NOT_OWN,
  budget = new Budget(AGENT_LIMITS),
): Promise<ForeignVerdict> {
  const { family } = address;
  const only = setOf(address);
  /** What the condition asks is known: true or false; undefined if it is not. */
  const answerTo = ({ sources, output }: Condition): boolean | undefined => {
    if (sources !== undefined) return from && meet(sources, setOf(from));
    if (output === undefined) return undefined;
    const [answer, ...more] = new Set(links.map((link) => leavesBy(output, link)));
    return more.length === 0 ? answer : undefined;
  };
  const narrow = (rule: Rule): Rule => {
    const answers = rule.conditions.map(answerTo);
    const isFor = meet(rule.destinations, only) && !answers.includes(false);
    // A rule that leads to the agent's own chain counts, whether or not the packets take it.
    if (!isFor) return { ...rule, destinations: nothing(family) };
    return { ...rule, conditions: rule.conditions.filter((_, index) => answers[index] === undefined) };
  };
  const interest = { inside: only, outside: only, isOwn };
  const { rules, unread: more } = await findForeignRules(baseChains, interest, budget, narrow);
  return {
    masquerading: rules.filter(({ effect }) => effect === 'masquerades' || effect === 'rewrites'),
    exempting: rules.filter(({ effect }) => effect !== 'masquerades'),
    unread: [...unread, ...more],
  };
}

function setOf({ family, value }: Address): RangeSet {
  return rangeSet(family, [{ first: value, last: value }]);
}

function meet(a: RangeSet, b: RangeSet): boolean {
  return intersection(a, b).ranges.length > 0;
}

/**
 * The rules that may decide otherwise than they should: all, or those found within the budget.
 *
 * @param narrow what a rule asks of the packets in question
 */
export async function findForeignRules(
  baseChains: readonly BaseChain[],
  interest: Interest,
  budget = new Budget(AGENT_LIMITS),
  narrow?: (rule: Rule) => Rule,
): Promise<{ readonly rules: readonly ForeignRule[]; readonly unread: readonly string[] }> {
  const rules = new Map<string, ForeignRule>();
  const unread: string[] = [];
  for (const base of baseChains) {
    if (base.family !== interest.inside.family) continue;
    const visit = (reached: ReachedRule): void => {
      if (base.isFilter && reached.effect !== 'rewrites') return;
      for (const effect of effectsOf(reached, interest)) {
        const destinations = intersection(reached.destinations, wantedBy(effect, interest));
        if (destinations.ranges.length === 0 || isHarmless(reached, effect, interest)) continue;
        const rule = foreignRule(base, reached, effect, destinations);
        rules.set(rule.key, rule);
        if (rules.size > MOST_FOUND) throw new TooManyRules(`${MOST_FOUND} that decide otherwise`);
      }
    };
    try {
      await visitDeciding(base, budget, visit, narrow);
    } catch (error) {
      if (error instanceof NetlinkError) unread.push(`${base.chainText}: ${error.message}`);
      else if (error instanceof TooManyRules)
        return { rules: [...rules.values()], unread: [...unread, error.message] };
      else throw error;
    }
  }
  return { rules: [...rules.values()], unread };
}

function wantedBy(effect: Effect, { inside, outside }: Interest): RangeSet {
  if (effect === 'rewrites') return union(inside, outside);
  return effect === 'masquerades' ? inside : outside;
}

/** NAT to another address than the node's, before the agent's rules or perhaps before them, masquerades and exempts. */
function effectsOf({ effect, rule, isBeforeOwn }: ReachedRule, { isOwn }: Interest): readonly Effect[] {
  if (effect === 'untracks' || effect === 'rewrites') return [effect];
  // Of another base chain, what the agent's chain does not follow, its rules see all the same.
  if (effect !== 'masquerades') return isBeforeOwn ? ['exempts'] : [];
  const to = rule.outcome.kind === 'masquerades' ? rule.outcome.to : undefined;
  const address = parseAddress(translatedAddress(to ?? '') ?? '');
  const replaces = to !== undefined && (address === undefined || !isOwn(address));
  return replaces && isBeforeOwn !== false ? [effect, 'exempts'] : [effect];
}

function foreignRule(
  { chainText, family }: BaseChain,
  { path: rules, conditions: asked }: ReachedRule,
  effect: Effect,
  destinations: RangeSet,
): ForeignRule {
  const path = rules.map(({ text }) => text);
  const conditions = asked.map(({ text }) => text);
  const key = [effect, chainText, ...path, ...conditions].join('\n');
  return {
    ...{ key, effect, family, chainText, path, destinations, conditions },
    author: authorOf(chainText, path),
    translates: rules.at(-1)?.outcome.kind === 'masquerades',
    deletion: rules.at(-1)?.deletion,
  };
}

/**
 * Conditions and comments of rules for packets that are not of pods, that proxies send, or that pods send to themselves. By the
 * management port of OVN-Kubernetes packets leave the node's own network for that of pods, which answer only if it is their source.
 */
const HARMLESS =
  /\bKUBE-(?:6-)?LOOP-BACK\b|^(?:output interface|oifname|oif) "?(?:lo|ovn-k8s-mp\d+)"?$|^(?:addrtype src-type LOCAL|fib saddr type local)$|^owner |\bcilium: NOTRACK for (?:L7 )?proxy\b/;

/** The addresses that a pod can have: not those of loopback, from which Docker's name server answers in nodes of kind. */
const OF_PODS: Readonly<Record<Family, RangeSet>> = {
  IPv4: complement(rangeSet('IPv4', [{ first: 127n << 24n, last: (128n << 24n) - 1n }])),
  IPv6: complement(rangeSet('IPv6', [{ first: 1n, last: 1n }])),
};

function isHarmless(reached: ReachedRule, effect: Effect, interest: Interest): boolean {
  const { conditions, destinations, path } = reached;
  const texts = [...conditions, ...path].map(({ text }) => text);
  if (effect !== 'masquerades' && isToNode(destinations, interest)) return true;
  if (isHairpin(reached) || texts.some((text) => HARMLESS.test(text))) return true;
  const asked = conditions.map((one) => one.sources).filter((sources) => sources !== undefined);
  const sources = asked.reduce(intersection, OF_PODS[destinations.family]);
  const isElsewhere = effect !== 'masquerades' && interest.sources && !meet(sources, interest.sources);
  return sources.ranges.length === 0 || isElsewhere === true;
}

/** Whether it is only about packets to the node itself, which do not leave it: NodeLocal DNSCache does not track those to its own addresses. */
function isToNode({ family, ranges }: RangeSet, { isOwn }: Interest): boolean {
  return ranges.every(({ first, last }) => first === last && isOwn({ family, value: first }));
}

/** Whether it is only about a pod that reaches itself through a host port: portmap and Docker write one rule per pod. */
function isHairpin({ rule: { destinations }, conditions }: ReachedRule): boolean {
  const [range, ...more] = destinations.ranges;
  if (range === undefined || more.length > 0 || range.first !== range.last) return false;
  const [host = ''] = prefixesOf(destinations).map(({ text }) => text);
  const address = host.slice(0, -`/${ADDRESS_BITS[destinations.family]}`.length);
  const pair = [`source ${host}`, `ip saddr ${address}`, `ip6 saddr ${address}`];
  return conditions.some(({ text }) => pair.includes(text));
}

/** The rules by effect, author and base chain. Those of an unknown author stand alone. */
export function groupForeignRules(rules: readonly ForeignRule[]): readonly ForeignGroup[] {
  const keyOf = ({ key, effect, family, chainText, author }: ForeignRule) =>
    author.id === UNKNOWN_ID ? key : [effect, family, chainText, author.id].join('\n');
  return [...Map.groupBy(rules, keyOf)].flatMap(([key, members]) =>
    members.slice(0, 1).map((first) => ({ ...first, key, rules: members })),
  );
}

/** What rules with each effect may do, after whose they are and where. */
const MAY: Readonly<Record<Effect, (destinations: string) => string>> = {
  masquerades: (to) => `may masquerade traffic to ${to}, which the config does not masquerade`,
  exempts: (to) =>
    `may keep traffic to ${to}, which the config masquerades, from getting an address of the node`,
  rewrites: (to) =>
    `may change addresses of traffic to ${to} without connection tracking: to the agent's rules it has another source or destination, and answers are not changed back`,
  untracks: (to) =>
    `may keep traffic to ${to}, which the config masquerades, from connection tracking, so that no NAT sees it`,
};

function mayText(effect: Effect, destinations: string, isKnown: boolean): string {
  return effect === 'masquerades' && !isKnown
    ? `may masquerade traffic to ${destinations}; what the config says about that is not known, because it is invalid`
    : MAY[effect](destinations);
}

function finding(group: ForeignGroup, policy: Policy | Family, accepted: readonly string[]): ForeignFinding {
  const { key, effect, family, rules, author } = group;
  return {
    key,
    effect,
    family,
    author: author.id,
    isAccepted: rules.every((rule) => isAccepted(rule.author, rule.path.at(-1), accepted)),
    rules: rules.length,
    limitsSources: rules.every(({ conditions }) => conditions.some((text) => FROM_SOURCES.test(text))),
    message: `${describeAuthor(group)} ${mayText(effect, concerned(policy, group), typeof policy !== 'string')}`,
    evidence: foreignEvidence(group),
    remedy: remedyOf(group),
  };
}

/**
 * What to do about the rules. What turns off an author's masquerading says nothing about rules that only keep packets from it,
 * but all about those that give another address: nobody must be told to leave a rule alone, and to delete it.
 */
export function remedyOf({
  effect,
  author,
  rules,
}: Pick<ForeignGroup, 'effect' | 'author' | 'rules'>): string {
  const isOfAuthor = author.id !== UNKNOWN_ID && rules.every(({ translates }) => translates);
  if (effect === 'rewrites')
    return `if it is meant, accept it (--accept-foreign=${author.acceptAs}); if not, ${REMOVE}`;
  if (effect === 'masquerades' || isOfAuthor) return author.remedy;
  return `if it is meant, list the destinations in nonMasqueradeCIDRs or accept it (--accept-foreign=${author.acceptAs}); if not, ${REMOVE}`;
}

const REMOVE = 'remove the rule where its program is configured, or delete it';

/** A condition that names the sources of packets, as iptables or nft; not one that names all but some. */
const FROM_SOURCES = /^(?:source|ip6? saddr) (?!not |!= )/;

/** Whose rules, and where: the beginning of a sentence. */
export function describeAuthor({ author, chainText, rules }: ForeignGroup): string {
  const who = author.id === UNKNOWN_ID ? 'an unknown author' : author.name;
  return `${rules.length === 1 ? 'a rule' : `${rules.length} rules`} of ${who} in ${chainText}`;
}

const SHOWN = 3;

/** The rules, those that lead to them, and what else they ask for. */
export function foreignEvidence({ rules }: Pick<ForeignGroup, 'rules'>): readonly string[] {
  return truncated(rules, SHOWN, ({ path, conditions, author, deletion }) => [
    ...path,
    ...(conditions.length === 0 ? [] : [`only if: ${conditions.join('; ')}`]),
    // Of a known author, the remedy is another one.
    ...(deletion === undefined || author.id !== 'unknown' ? [] : [`delete it: ${deletion}`]),
  ]);
}

const NAMED = 4;

/** The destinations that the rules concern: entries of the policy, or addresses that no entry names. */
function concerned(policy: Policy | Family, { effect, family, rules }: ForeignGroup): string {
  const all = rangeSet(
    family,
    rules.flatMap(({ destinations }) => destinations.ranges),
  );
  if (effect !== 'masquerades' || typeof policy === 'string') {
    if (sameRanges(all.ranges, wantedBy(effect, interestOf(policy)).ranges)) return 'every destination';
    return truncatedText(all.ranges, NAMED, (range) => formatRange(family, range));
  }
  const entries = policy.entries.filter(
    ({ verdict, prefix }) => verdict === 'not_masqueraded' && meet(all, rangeSet(family, [rangeOf(prefix)])),
  );
  return truncatedText(entries, NAMED, ({ prefix, origin }) => `${prefix.text} (${formatOrigin(origin)})`);
}
