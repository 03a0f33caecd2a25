import { ADDRESS_BITS, type Address, type Family } from '../cidr/address.ts';
import { intersection, prefixesOf, type RangeSet, rangeOf, rangeSet } from '../cidr/ranges.ts';
import type { Rule } from '../dataplane/rule.ts';
import { notMasqueradedDestinations } from '../policy/flatten.ts';
import type { Entry, Policy } from '../policy/policy.ts';
import type { Advice } from '../text/advice.ts';
import { formatOrigin } from '../text/origin.ts';
import { truncated, truncatedText } from '../text/words.ts';
import { type Author, authorOf } from './author.ts';
import type { BaseChain } from './base-chain.ts';
import { ANALYSE_MS, Budget, MOST_FINDINGS, TooManyRules } from './budget.ts';
import { endBeforeOwn, type ReachedRule, visitMasquerading } from './reach.ts';
import type { NodeRules } from './read-node.ts';

/** A foreign rule that may masquerade packets to some destinations. */
export interface ForeignRule {
  /** Equal for the same rule in the same chain at another time, whatever the policy. */
  readonly key: string;
  readonly family: Family;
  readonly chainText: string;
  /** The rules that lead to it, as their tool writes them; the last one is the rule itself. */
  readonly path: readonly string[];
  readonly destinations: RangeSet;
  /** What else must be so for the rule to masquerade a packet. */
  readonly conditions: readonly string[];
  readonly author: Author;
  /** The command that deletes the rule; undefined if it is not known. */
  readonly deletion?: string | undefined;
}

/** Foreign rules of one author in one base chain: a CNI plugin makes one for each pod. */
export interface ForeignGroup extends Pick<ForeignRule, 'key' | 'family' | 'chainText' | 'author'> {
  readonly rules: readonly ForeignRule[];
}

/** Foreign rules of one author that may masquerade what the policies leave alone: whose, where, and which entries they concern. */
export interface ForeignFinding extends Advice {
  /** Equal for the same author in the same base chain at another time. */
  readonly key: string;
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

/**
 * Finds the rules of a node that may masquerade what the policies leave alone, by author and base chain.
 *
 * @param accepted the ids of authors whose rules the operator knows and accepts
 */
export async function findForeign(
  { baseChains, unread }: NodeRules,
  policies: readonly Policy[],
  accepted: readonly string[] = [],
  budget = new Budget(ANALYSE_MS),
): Promise<ForeignFindings> {
  const words = new Set(unread);
  const groups: { readonly group: ForeignGroup; readonly policy: Policy }[] = [];
  for (const policy of policies) {
    const found = await findForeignRules(baseChains, notMasqueradedDestinations(policy), budget);
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
  /** A rule without conditions (ACCEPT, RETURN or the like) that ends the chain before the agent's own is met; its path. */
  readonly endedBy: { readonly chainText: string; readonly path: readonly string[] } | undefined;
  /** What could not be read or analysed, in words. */
  readonly unread: readonly string[];
}

/** Which foreign rules decide about packets to an address that is not one of the node's own. */
export async function explainForeign(
  { baseChains, unread }: NodeRules,
  { family, value }: Address,
  budget = new Budget(ANALYSE_MS),
): Promise<ForeignVerdict> {
  const only = rangeSet(family, [{ first: value, last: value }]);
  const mayMatch = ({ destinations }: Rule) => intersection(destinations, only).ranges.length > 0;
  const narrowed = baseChains
    .filter((base) => base.family === family)
    .map((base): BaseChain => {
      const chains = [...base.chains].map(([name, rules]) => [name, rules.filter(mayMatch)] as const);
      return { ...base, chains: new Map(chains) };
    });
  const [endedBy] = narrowed.flatMap((base) => {
    const path = endBeforeOwn(base)?.map(({ text }) => text);
    return path === undefined ? [] : [{ chainText: base.chainText, path }];
  });
  const { rules, unread: more } = await findForeignRules(narrowed, only, budget);
  return { masquerading: rules, endedBy, unread: [...unread, ...more] };
}

/** The rules that may masquerade packets to these destinations: all, or those found within the budget. */
export async function findForeignRules(
  baseChains: readonly BaseChain[],
  interesting: RangeSet,
  budget = new Budget(ANALYSE_MS),
): Promise<{ readonly rules: readonly ForeignRule[]; readonly unread: readonly string[] }> {
  const rules = new Map<string, ForeignRule>();
  try {
    for (const base of baseChains) {
      if (base.family !== interesting.family) continue;
      await visitMasquerading(base, budget, (reached) => {
        const destinations = intersection(reached.destinations, interesting);
        if (destinations.ranges.length === 0 || isHairpin(reached)) return;
        const rule = foreignRule(base, reached, destinations);
        rules.set(rule.key, rule);
      });
    }
    return { rules: [...rules.values()], unread: [] };
  } catch (error) {
    if (!(error instanceof TooManyRules)) throw error;
    return { rules: [...rules.values()], unread: [error.message] };
  }
}

function foreignRule(
  { chainText, family }: BaseChain,
  { path: rules, conditions }: ReachedRule,
  destinations: RangeSet,
): ForeignRule {
  const path = rules.map(({ text }) => text);
  const key = [chainText, ...path, ...conditions].join('\n');
  return {
    ...{ key, family, chainText, path, destinations, conditions },
    author: authorOf(chainText, path),
    deletion: rules.at(-1)?.deletion,
  };
}

/**
 * Whether it is only about a pod that reaches itself through a Service or a host port: portmap and Docker write one
 * rule per pod whose source is its destination; kube-proxy in IPVS mode has a set of such pairs.
 */
function isHairpin({ rule: { destinations }, conditions }: ReachedRule): boolean {
  if (conditions.some((text) => text.includes('KUBE-LOOP-BACK'))) return true;
  const [range, ...more] = destinations.ranges;
  if (range === undefined || more.length > 0 || range.first !== range.last) return false;
  const [host = ''] = prefixesOf(destinations).map(({ text }) => text);
  const address = host.slice(0, -`/${ADDRESS_BITS[destinations.family]}`.length);
  const pair = [`source ${host}`, `ip saddr ${address}`, `ip6 saddr ${address}`];
  return pair.some((text) => conditions.includes(text));
}

/** The rules by author and base chain. Those of an unknown author stand alone. */
export function groupForeignRules(rules: readonly ForeignRule[]): readonly ForeignGroup[] {
  const keyOf = ({ key, family, chainText, author }: ForeignRule) =>
    author.id === 'unknown' ? key : [family, chainText, author.id].join('\n');
  return [...Map.groupBy(rules, keyOf)].flatMap(([key, members]) =>
    members.slice(0, 1).map((first) => ({ ...first, key, rules: members })),
  );
}

function finding(group: ForeignGroup, policy: Policy, accepted: readonly string[]): ForeignFinding {
  const { key, family, rules, author } = group;
  return {
    key,
    family,
    author: author.id,
    isAccepted: accepted.includes(author.id),
    rules: rules.length,
    limitsSources: rules.every(({ conditions }) => conditions.some((text) => FROM_SOURCES.test(text))),
    message: `${describeAuthor(group)} may masquerade traffic to ${named(concerned(policy, rules))}, which the config does not masquerade`,
    evidence: foreignEvidence(group),
    remedy: author.remedy,
  };
}

/** A condition that names the sources of packets, as iptables or nft; not one that names all but some. */
const FROM_SOURCES = /^(?:source|ip6? saddr) (?!not |!= )/;

/** Whose rules, and where: the beginning of a sentence. */
export function describeAuthor({ author, chainText, rules }: ForeignGroup): string {
  const who = author.id === 'unknown' ? 'an unknown author' : author.name;
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

function named(entries: readonly Entry[]): string {
  return truncatedText(entries, NAMED, ({ prefix, origin }) => `${prefix.text} (${formatOrigin(origin)})`);
}

function concerned({ family, entries }: Policy, rules: readonly ForeignRule[]): readonly Entry[] {
  const ranges = rules.flatMap(({ destinations }) => destinations.ranges);
  const all = rangeSet(family, ranges);
  return entries.filter(
    ({ verdict, prefix }) =>
      verdict === 'not_masqueraded' &&
      intersection(all, rangeSet(family, [rangeOf(prefix)])).ranges.length > 0,
  );
}
