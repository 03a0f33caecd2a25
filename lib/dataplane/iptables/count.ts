import type { Policy } from '../../policy/policy.ts';
import type { RuleCount } from '../dataplane.ts';
import { renderChain } from './chain.ts';
import type { IptablesOptions } from './options.ts';
import { ruleKey, ruleTarget } from './rule.ts';
import type { CountedRule } from './tool.ts';

/** What each rule has counted, of those that the policy asks for. */
export function countRules(
  rules: readonly CountedRule[],
  policy: Policy,
  options: IptablesOptions,
): readonly RuleCount[] {
  const entries = new Map(renderChain(policy, options).map(({ spec, entry }) => [ruleKey(spec), entry]));
  return rules.flatMap(({ spec, packets, bytes }) => {
    const key = ruleKey(spec);
    if (!entries.has(key)) return [];
    const verdict = ruleTarget(spec) === 'MASQUERADE' ? 'masquerade' : 'return';
    return [{ rule: key, entry: entries.get(key), verdict, packets, bytes }];
  });
}
