import type { Preview } from '../../cmd/ip-masq-agent/diff/preview.ts';
import type { Dataplane, Plan } from '../dataplane/dataplane.ts';
import { diffOf } from '../dataplane/diff.ts';
import type { InstalledIptables } from '../dataplane/iptables/installed.ts';
import type { Place } from '../dataplane/open.ts';
import type { Family, Policy } from '../policy/policy.ts';
import type { Finding } from './finding.ts';
import { findForeignGroups } from './group.ts';
import type { NodeRules } from './read-node.ts';
import { describeForeign, foreignEvidence } from './watch.ts';

/** How the rules of ours differ from what the config wants. */
export function ownRuleFindings(previews: readonly Preview[]): readonly Finding[] {
  return previews.flatMap(({ family, plan }): Finding[] => {
    if (plan === undefined) return [];
    const message = `the rules of ours are not as the config wants them: ${plan.found.join(', ')}`;
    const remedy = 'is the agent running? See its log, and what a sync would change: ip-masq-agent diff';
    return [{ kind: 'out-of-sync', family, message, evidence: changesOf(plan), remedy }];
  });
}

function changesOf(plan: Plan): readonly string[] {
  const changed = diffOf(plan).filter(({ change }) => change !== 'kept');
  return changed.map(({ change, rule }) => `${change === 'added' ? 'missing' : 'there'}: ${rule.text}`);
}

/** What follows our jump, what rules of others do to the policies, and what could not be read. */
export function neighbourFindings(node: NodeRules, policies: readonly Policy[]): readonly Finding[] {
  const { baseChains, unread } = node;
  const followers = baseChains.flatMap(({ where, family, name, chains }): Finding[] => {
    const rules = chains.get(name) ?? [];
    const jump = rules.findLastIndex(({ outcome }) => outcome.kind === 'ours');
    const evidence = jump === -1 ? [] : rules.slice(jump + 1).map(({ text }) => text);
    if (evidence.length === 0) return [];
    const message = `our jump is not the last rule of ${where}: those behind it see what we leave alone`;
    const remedy = 'look whether they masquerade it (foreign-rule); else they do no harm';
    return [{ kind: 'jump-not-last', family, message, evidence, remedy }];
  });
  const foreign = policies.flatMap((policy) =>
    findForeignGroups(node, policy).map((group): Finding => {
      const { family, remedy } = group;
      return {
        kind: 'foreign-rule',
        family,
        message: describeForeign(group),
        evidence: foreignEvidence(group),
        remedy,
      };
    }),
  );
  const blind = unread.map((what): Finding => {
    const remedy = 'install the tool, or look by hand';
    return { kind: 'not-looked-at', message: 'rules of others may be hidden', evidence: [what], remedy };
  });
  return [...followers, ...foreign, ...blind];
}

/**
 * Whether rules of ours are in a dataplane or mode that is not used.
 *
 * @throws {DataplaneError}
 */
export async function elsewhereFindings(
  used: Dataplane,
  { dataplane, families }: Place,
): Promise<readonly Finding[]> {
  if (dataplane.name === used.name) return [];
  const findings: Finding[] = [];
  for (const family of families) {
    const left = (await dataplane.observe(family)).planRemoval();
    if (left === undefined) continue;
    findings.push({
      kind: 'chain-elsewhere',
      family,
      message: `rules of ours are in ${dataplane.name} too, but ${used.name} is used`,
      evidence: left.current,
      remedy: 'stop the agent, run ip-masq-agent cleanup, start it again',
    });
  }
  return findings;
}

/** Rules that are shown of each mode. */
const SHOWN = 3;

/**
 * Whether both modes hold rules: most programs see those of one mode only, but the kernel obeys both.
 *
 * @throws {DataplaneError}
 */
export async function bothModesFindings(
  places: readonly InstalledIptables[],
  family: Family,
): Promise<readonly Finding[]> {
  const evidence: string[] = [];
  let modes = 0;
  for (const { dataplane, families, builtInRules } of places) {
    const rules = families.includes(family) ? await builtInRules(family) : [];
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
