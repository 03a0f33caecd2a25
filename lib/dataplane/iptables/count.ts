import type { Policy } from '../../policy/policy.ts';
import type { EntryCount } from '../dataplane.ts';
import type { IptablesOptions } from './options.ts';
import { renderChain } from './render.ts';
import { ruleKey, ruleTarget } from './rule.ts';
import type { CountedRule } from './tool.ts';

/** What each entry has counted: an entry may have several rules. Rules that the policy does not ask for are left out. */
export function countRules(
  rules: readonly CountedRule[],
  policy: Policy,
  options: IptablesOptions,
): readonly EntryCount[] {
  const entries = new Map(renderChain(policy, options).map(({ spec, entry }) => [ruleKey(spec), entry]));
  return rules.flatMap(({ spec, packets, bytes }) => {
    const key = ruleKey(spec);
    if (!entries.has(key)) return [];
    const verdict = ruleTarget(spec) === 'MASQUERADE' ? 'masquerade' : 'return';
    return [{ entry: entries.get(key), verdict, packets, bytes }];
  });
}
