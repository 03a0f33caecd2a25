import { intersection, rangeOf } from '../cidr/ranges.ts';
import type { Entry, Policy } from '../policy/policy.ts';
import { type ForeignRule, findForeignRules } from './find.ts';
import type { NodeRules } from './read-node.ts';

/** Rules of one author in one place: a CNI plugin, say, makes one for each pod. */
export interface ForeignGroup extends Pick<ForeignRule, 'family' | 'where' | 'author' | 'remedy'> {
  /** Equal for the same author in the same place at another time. */
  readonly key: string;
  readonly rules: readonly ForeignRule[];
}

/** Such rules, and what they concern. */
export interface ForeignFinding extends ForeignGroup {
  /** What the policy leaves alone, and the rules may masquerade, all or a part of it. */
  readonly entries: readonly Entry[];
}

/** What others may do to the policy. */
export function findForeignGroups({ baseChains }: NodeRules, policy: Policy): readonly ForeignFinding[] {
  return groupForeignRules(findForeignRules(baseChains, policy)).map((group) => ({
    ...group,
    entries: concerned(policy, group.rules),
  }));
}

/** The rules by author and place. Those whose author nobody knows stand alone. */
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

function concerned({ family, entries }: Policy, rules: readonly ForeignRule[]): readonly Entry[] {
  return entries.filter(({ verdict, prefix }) => {
    const range = { family, ranges: [rangeOf(prefix)] };
    const meets = ({ destinations }: ForeignRule) => intersection(destinations, range).ranges.length > 0;
    return verdict === 'return' && rules.some(meets);
  });
}
