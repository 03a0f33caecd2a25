import type { Installed, Plan } from '../dataplane/dataplane.ts';
import { diffOf } from '../dataplane/diff.ts';
import type { Host } from '../dataplane/host.ts';
import { builtInRules } from '../dataplane/iptables/detect.ts';
import { inTurns } from '../dataplane/iptables/legacy.ts';
import { createTool } from '../dataplane/iptables/tool.ts';
import type { Family, Policy } from '../policy/policy.ts';
import { findForeign } from './find.ts';
import type { Finding } from './finding.ts';
import type { NodeRules } from './read-node.ts';

/** How the agent's rules differ from what the config says. */
export function ownRuleFindings(family: Family, plan: Plan | undefined): readonly Finding[] {
  if (plan === undefined) return [];
  const message = `the agent's rules are not as the config says: ${plan.found.join(', ')}`;
  const remedy = 'is the agent running? See its log, and what a sync would change: ip-masq-agent diff';
  return [{ kind: 'out-of-sync', family, message, evidence: changesOf(plan), remedy }];
}

function changesOf(plan: Plan): readonly string[] {
  const changed = diffOf(plan).filter(({ change }) => change !== 'kept');
  return changed.map(({ change, rule }) => `${change === 'added' ? 'missing' : 'there'}: ${rule.text}`);
}

/** What follows the agent's jump, what foreign rules do to the policies, and what could not be read. */
export async function neighbourFindings(
  node: NodeRules,
  policies: readonly Policy[],
): Promise<readonly Finding[]> {
  const { baseChains } = node;
  const { findings, unread } = await findForeign(node, policies);
  const followers = baseChains.flatMap(({ where, family, name, chains }): Finding[] => {
    const rules = chains.get(name) ?? [];
    const jump = rules.findLastIndex(({ outcome }) => outcome.kind === 'ours');
    const evidence = jump === -1 ? [] : rules.slice(jump + 1).map(({ text }) => text);
    if (evidence.length === 0) return [];
    const message = `the agent's jump is not the last rule of ${where}: the rules behind it see what the agent leaves alone`;
    const remedy = 'check whether they masquerade it (foreign-rule); if not, they do no harm';
    return [{ kind: 'jump-not-last', family, message, evidence, remedy }];
  });
  const foreign = findings.map(({ family, message, evidence, remedy }): Finding => {
    return { kind: 'foreign-rule', family, message, evidence, remedy };
  });
  const blind = unread.map((what): Finding => {
    const remedy = 'install the tool, or look by hand';
    return { kind: 'not-looked-at', message: 'foreign rules may be hidden', evidence: [what], remedy };
  });
  return [...followers, ...foreign, ...blind];
}

/** Rules that are shown of each mode. */
const SHOWN = 3;

/**
 * Whether both modes hold rules: most programs see those of one mode only, but the kernel obeys both.
 *
 * @throws {DataplaneError}
 */
export async function bothModesFindings(
  host: Host,
  installed: readonly Installed[],
  family: Family,
): Promise<readonly Finding[]> {
  const evidence: string[] = [];
  let modes = 0;
  for (const { dataplane, families } of installed) {
    if (dataplane.iptables === undefined || !families.includes(family)) continue;
    const { mode, suffix } = dataplane.iptables;
    const rules = await builtInRules(createTool(inTurns(host, mode), family, suffix));
    if (rules.length === 0) continue;
    modes += 1;
    const more = rules.length > SHOWN ? [`… and ${rules.length - SHOWN} more`] : [];
    evidence.push(`${dataplane.name}:`, ...[...rules.slice(0, SHOWN), ...more].map((rule) => `  ${rule}`));
  }
  if (modes < 2) return [];
  const message = 'both iptables modes hold rules in the built-in chains of nat';
  const remedy =
    'let all programs of the node use one mode: update-alternatives --config iptables on the node, iptables of the same mode in images';
  return [{ kind: 'both-modes', family, message, evidence, remedy }];
}
