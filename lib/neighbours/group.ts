import { intersection, rangeOf } from '../cidr/ranges.ts';
import type { Entry, Family, Policy } from '../policy/policy.ts';
import { formatOrigin } from '../text/origin.ts';
import { type ForeignRule, findForeignRules } from './find.ts';
import type { NodeRules } from './read-node.ts';

/** Foreign rules of one author in one base chain: a CNI plugin, for example, makes one for each pod. */
export interface ForeignGroup extends Pick<ForeignRule, 'family' | 'where' | 'author' | 'remedy'> {
  /** A key that stays the same for the same author and base chain. */
  readonly key: string;
  readonly rules: readonly ForeignRule[];
}

/** Foreign rules that may masquerade what a policy does not, in words. */
export interface ForeignFinding {
  /** A key that stays the same for the same author and base chain. */
  readonly key: string;
  readonly family: Family;
  /** The number of rules. */
  readonly rules: number;
  /** The author, the base chain and the entries of the policy, in one sentence. */
  readonly message: string;
  /** The rules, the rules that lead to them, and their conditions. */
  readonly evidence: readonly string[];
  readonly remedy: string;
}

/** The foreign rules of a node that may masquerade what the policy does not. */
export function findForeign({ baseChains }: NodeRules, policy: Policy): readonly ForeignFinding[] {
  return groupForeignRules(findForeignRules(baseChains, policy)).map((group) => ({
    key: group.key,
    family: group.family,
    rules: group.rules.length,
    message: `${describeAuthor(group)} may masquerade traffic to ${named(concerned(policy, group.rules))}, which the config does not masquerade`,
    evidence: foreignEvidence(group),
    remedy: group.remedy,
  }));
}

/** Groups rules by author and base chain. Each rule of an unknown author is a group. */
export function groupForeignRules(rules: readonly ForeignRule[]): readonly ForeignGroup[] {
  const groups = Map.groupBy(rules, ({ key, family, where, author }) =>
    author === 'unknown' ? key : [family, where, author].join('\n'),
  );
  return [...groups].flatMap(([key, members]) => {
    const [first] = members;
    if (first === undefined) return [];
    const { family, where, author, remedy } = first;
    return [{ key, family, where, author, remedy, rules: members }];
  });
}

/** The number of rules, their author and their base chain, as the subject of a sentence. */
export function describeAuthor({ author, where, rules }: ForeignGroup): string {
  const who = author === 'unknown' ? 'an unknown author' : author;
  return `${rules.length === 1 ? 'a rule' : `${rules.length} rules`} of ${who} in ${where}`;
}

/** How many rules of a group are shown. */
const SHOWN = 3;

/** The rules, the rules that lead to them, and their conditions. */
export function foreignEvidence({ rules }: Pick<ForeignGroup, 'rules'>): readonly string[] {
  const more = rules.length > SHOWN ? [`… and ${rules.length - SHOWN} more`] : [];
  return [...rules.slice(0, SHOWN).flatMap(ruleEvidence), ...more];
}

function ruleEvidence({ path, conditions }: ForeignRule): readonly string[] {
  return [...path, ...(conditions.length === 0 ? [] : [`only if: ${conditions.join('; ')}`])];
}

/** How many entries a sentence names. */
const NAMED = 4;

function named(entries: readonly Entry[]): string {
  const names = entries
    .slice(0, NAMED)
    .map(({ prefix, origin }) => `${prefix.text} (${formatOrigin(origin)})`);
  return `${names.join(', ')}${entries.length > NAMED ? ` and ${entries.length - NAMED} more` : ''}`;
}

function concerned({ family, entries }: Policy, rules: readonly ForeignRule[]): readonly Entry[] {
  return entries.filter(({ verdict, prefix }) => {
    const range = { family, ranges: [rangeOf(prefix)] };
    const meets = ({ destinations }: ForeignRule) => intersection(destinations, range).ranges.length > 0;
    return verdict === 'return' && rules.some(meets);
  });
}
