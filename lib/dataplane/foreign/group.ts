import { intersection, rangeOf } from '../../cidr/ranges.ts';
import type { Entry, Policy } from '../../policy/policy.ts';
import { type ForeignRule, findForeignRules } from './find.ts';
import type { NodeRules } from './node.ts';

/** Rules of one author in one place: a CNI plugin, say, makes one for each pod. */
export interface ForeignGroup extends Pick<ForeignRule, 'family' | 'where' | 'author' | 'remedy'> {
  /** Equal for the same author in the same place at another time. */
  readonly key: string;
  readonly rules: readonly ForeignRule[];
  /** What the policy leaves alone, and the rules may masquerade, all or a part of it. */
  readonly entries: readonly Entry[];
}

/** What others may do to the policy. Rules whose author nobody knows stand alone. */
export function findForeignGroups({ baseChains }: NodeRules, policy: Policy): readonly ForeignGroup[] {
  const groups = new Map<string, ForeignRule[]>();
  for (const rule of findForeignRules(baseChains, policy)) {
    const key = rule.author === 'unknown' ? rule.key : [rule.family, rule.where, rule.author].join('\n');
    groups.set(key, [...(groups.get(key) ?? []), rule]);
  }
  return [...groups].flatMap(([key, rules]) => {
    const [first] = rules;
    if (first === undefined) return [];
    const { family, where, author, remedy } = first;
    return [{ key, family, where, author, remedy, rules, entries: concerned(policy, rules) }];
  });
}

function concerned({ family, entries }: Policy, rules: readonly ForeignRule[]): readonly Entry[] {
  return entries.filter(({ verdict, prefix }) => {
    const range = { family, ranges: [rangeOf(prefix)] };
    const meets = ({ destinations }: ForeignRule) => intersection(destinations, range).ranges.length > 0;
    return verdict === 'return' && rules.some(meets);
  });
}
