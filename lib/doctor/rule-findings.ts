import { agentText, type Holder } from '../agent/holder.ts';
import type { RuleLocationState, Survey } from '../agent/rule-locations.ts';
import { type Dataplane, type Plan, type RulesAtLocation, ruleLocationName } from '../dataplane/dataplane.ts';
import { diffOf } from '../dataplane/diff.ts';
import { isOfOlderAgent, OLDER_AGENT_REMEDY } from '../dataplane/iptables/chain.ts';
import { counted } from '../text/words.ts';
import type { Finding } from './finding.ts';
import type { Preview } from './preview.ts';

export function ownRuleFindings({ dataplane, family, plan }: Preview, holder: Holder): readonly Finding[] {
  if (plan === undefined) return [];
  const rules = plan.current;
  if (isOfOlderAgent(rules)) return [olderAgentFinding({ dataplane, family, rules })];
  const message = `the agent's rules differ from the config: ${plan.found.join(', ')}`;
  const remedy =
    holder.kind === 'agent'
      ? 'run doctor again; if they still differ, ip-masq-agent status and the log of the agent say which program changes them, or why the repair fails; ip-masq-agent diff shows what a sync would change'
      : 'check that the agent runs, and read its log; ip-masq-agent diff shows what a sync would change';
  return [{ kind: 'out-of-sync', family, message, evidence: changesOf(plan), remedy }];
}

function changesOf(plan: Plan): readonly string[] {
  const changed = diffOf(plan).filter(({ change }) => change !== 'kept');
  return changed.map(({ change, rule }) => `${change === 'added' ? 'missing' : 'extra'}: ${rule.text}`);
}

/**
 * The finding about rules in a location that the agent does not use.
 *
 * @throws {DataplaneError}
 */
export function leftoverFindings(used: Dataplane, state: RuleLocationState): readonly Finding[] {
  if (state.kind === 'unreadable') throw state.error;
  if (state.kind !== 'found') return [];
  const { dataplane, family, rules } = state;
  if (isOfOlderAgent(rules)) return [olderAgentFinding(state)];
  const message = `the agent's rules are also in ${dataplane.name}, but ${used.name} is used`;
  const remedy = 'stop the agent, run ip-masq-agent cleanup, start the agent again';
  return [{ kind: 'chain-elsewhere', family, message, evidence: rules, remedy }];
}

/** The finding that nobody keeps the agent's rules: no process holds its lock, or the one that does is silent. */
export function holderFindings(holder: Holder, survey: Survey): readonly Finding[] {
  if (holder.kind === 'none') return deadAgentFindings(survey);
  if (holder.kind === 'unproven' || holder.introduction !== undefined) return [];
  const message = `${agentText(holder)} runs on this node, but does not answer: it hangs, is stopped, or is still starting`;
  const remedy =
    'run doctor again; if the agent still does not answer, it follows no change: look at its log, then delete its pod';
  return [{ kind: 'agent-silent', message, evidence: [], remedy }];
}

function deadAgentFindings({ used, others }: Survey): readonly Finding[] {
  const evidence = [...used, ...others].flatMap((one) =>
    one.kind === 'found' && !isOfOlderAgent(one.rules)
      ? [`${ruleLocationName(one)}: ${counted(one.rules.length, 'rule')}`]
      : [],
  );
  if (evidence.length === 0) return [];
  const message =
    'the rules of the agent are there, but no agent runs on this node: they follow no change of the config, and nobody repairs them';
  const remedy =
    'if --once wrote them, this is expected: run it again after each change; otherwise find out why the DaemonSet has no running pod on this node; remove the rules only if the node should have none: ip-masq-agent cleanup';
  return [{ kind: 'no-agent', message, evidence, remedy }];
}

/** The finding about rules of an older agent in the agent's chain, or that lead to it. */
function olderAgentFinding({ dataplane, family, rules }: RulesAtLocation): Finding {
  const message = `ip-masq-agent v1 or v2 has written rules for the agent's chain in ${dataplane.name}`;
  return { kind: 'older-agent', family, message, evidence: rules, remedy: OLDER_AGENT_REMEDY };
}
