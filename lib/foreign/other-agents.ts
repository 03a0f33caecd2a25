import { type RulesAtLocation, ruleLocationName } from '../dataplane/dataplane.ts';
import { isOfOlderAgent } from '../dataplane/iptables/chain.ts';
import { OTHER_AGENT } from './author.ts';
import type { ForeignFinding } from './find.ts';

/** What to do about rules of v1 or v2. */
export const OLDER_AGENT_REMEDY =
  'do not run both: remove the DaemonSet of the older agent, as the migration guide says (docs/migration.md)';

/**
 * The finding about rules that have come back after the agent has removed them, so that another agent keeps them.
 *
 * @param accepted the ids of authors whose rules the operator knows and accepts
 */
export function otherAgentFinding(found: RulesAtLocation, accepted: readonly string[]): ForeignFinding {
  const { dataplane, family, rules } = found;
  const who = isOfOlderAgent(rules) ? 'ip-masq-agent v1 or v2' : 'another agent';
  return {
    key: `others ${ruleLocationName(found)}`,
    effect: 'masquerades',
    family,
    author: OTHER_AGENT,
    isAccepted: accepted.includes(OTHER_AGENT),
    limitsSources: false,
    rules: rules.filter((rule) => / -j MASQUERADE\b| counter masquerade\b/.test(rule)).length,
    message: `rules that this agent removed from ${dataplane.name} are back, and stay: ${who} keeps a chain of the same name there, and may masquerade what the config does not masquerade`,
    evidence: rules,
    remedy: isOfOlderAgent(rules) ? OLDER_AGENT_REMEDY : 'find the other agent, and remove it',
  };
}
