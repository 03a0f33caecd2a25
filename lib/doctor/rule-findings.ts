import { agentText, type Holder } from '../agent/holder.ts';
import type { Preview } from '../agent/preview.ts';
import type { RuleLocationState, Survey } from '../agent/rule-locations.ts';
import {
  type Dataplane,
  type Plan,
  type RuleLocation,
  type RulesAtLocation,
  ruleLocationName,
} from '../dataplane/dataplane.ts';
import { diffOf } from '../dataplane/diff.ts';
import type { Host } from '../dataplane/host.ts';
import { isOfOlderAgent } from '../dataplane/iptables/chain.ts';
import { builtInRules } from '../dataplane/iptables/detect.ts';
import { chainLister } from '../dataplane/iptables/list-chain.ts';
import { natObstacle } from '../dataplane/iptables/observe.ts';
import { IPTABLES_OF } from '../dataplane/iptables/tool.ts';
import { type Netlink, noAnswer } from '../dataplane/netlink.ts';
import type { Rule } from '../dataplane/rule.ts';
import { authorOf, isAccepted } from '../foreign/author.ts';
import { type BaseChain, readBaseChain } from '../foreign/base-chain.ts';
import { Budget, COMMAND_LIMITS, MOST_CHAINS, MOST_FOUND, TooManyRules } from '../foreign/budget.ts';
import { type Effect, findForeign } from '../foreign/find.ts';
import { OLDER_AGENT_REMEDY } from '../foreign/other-agents.ts';
import { createNftReader } from '../foreign/read-nftables.ts';
import type { NodeRules } from '../foreign/read-node.ts';
import { createIsLocal } from '../node/own-addresses.ts';
import type { Family, Policy } from '../policy/policy.ts';
import { counted, truncated } from '../text/words.ts';
import type { Finding, FindingKind } from './finding.ts';

export function ownRuleFindings({ dataplane, family, plan }: Preview): readonly Finding[] {
  if (plan === undefined) return [];
  const rules = plan.current;
  if (isOfOlderAgent(rules)) return [olderAgentFinding({ dataplane, family, rules })];
  const message = `the agent's rules differ from the config: ${plan.found.join(', ')}`;
  const remedy =
    'check that the agent runs, and read its log; ip-masq-agent diff shows what a sync would change';
  return [{ kind: 'out-of-sync', family, message, evidence: changesOf(plan), remedy }];
}

function changesOf(plan: Plan): readonly string[] {
  const changed = diffOf(plan).filter(({ change }) => change !== 'kept');
  return changed.map(({ change, rule }) => `${change === 'added' ? 'missing' : 'extra'}: ${rule.text}`);
}

/**
 * The findings about rules after the agent's jump, foreign rules, and unreadable rules.
 *
 * @param policies the families if the config is invalid
 * @param accepted the ids of authors whose rules are not reported
 */
export async function foreignFindings(
  node: NodeRules,
  policies: readonly (Policy | Family)[],
  accepted: readonly string[],
): Promise<readonly Finding[]> {
  const { baseChains } = node;
  const budget = new Budget(COMMAND_LIMITS);
  const { findings: all, unread } = await findForeign(node, policies, accepted, createIsLocal(), budget);
  const findings = all.filter(({ isAccepted }) => !isAccepted);
  const followers: Finding[] = [];
  for (const base of baseChains) {
    const { chainText, family } = base;
    const isMeant = (text: string) => isAccepted(authorOf(chainText, [text]), text, accepted);
    const evidence = (await textsBehindOwn(base)).filter((text) => !isMeant(text));
    if (evidence.length === 0) continue;
    const message = `the agent's jump is not the last rule of ${chainText}: the rules after it see traffic that the agent does not masquerade`;
    const remedy = 'check whether they masquerade it (foreign-rule); if not, they are harmless';
    followers.push({ kind: 'jump-not-last', family, message, evidence, remedy });
  }
  const foreign = findings.map(({ effect, family, message, evidence, remedy }): Finding => {
    return { kind: KINDS[effect], family, message, evidence, remedy };
  });
  const blind = unread.map((what): Finding => {
    const remedy = 'this is a limit of one reading, or an error: look at these rules by hand';
    return { kind: 'not-read', message: 'foreign rules may be hidden', evidence: [what], remedy };
  });
  return [...followers, ...foreign, ...blind];
}

const KINDS: Readonly<Record<Effect, FindingKind>> = {
  masquerades: 'foreign-rule',
  rewrites: 'stateless-nat',
  exempts: 'foreign-exemption',
  untracks: 'foreign-exemption',
};

/** The rules of a base chain behind the last one that leads to the agent's own, at most MOST_FOUND. */
async function textsBehindOwn({ name, chains }: BaseChain): Promise<readonly string[]> {
  const chain = chains.get(name);
  const texts: string[] = [];
  let toOwn = chain?.toOwn ?? 0;
  if (chain === undefined || toOwn === 0) return texts;
  const visit = ({ outcome, text }: Rule) => {
    if (outcome.kind === 'own') toOwn -= 1;
    else if (toOwn === 0 && texts.length < MOST_FOUND) texts.push(text);
  };
  await chain.each(visit, new Budget(COMMAND_LIMITS)).catch(orNothing);
  return texts;
}

/**
 * The findings that the kernel may run the agent's rules before kube-proxy's: of two chains with one priority it runs
 * the one that was registered later first, and it tells nobody which that is.
 *
 * @param accepted the ids of authors whose rules are not reported
 */
export function orderFindings({ samePriority }: NodeRules, accepted: readonly string[]): readonly Finding[] {
  if (accepted.includes('kube-proxy')) return [];
  return samePriority.map(({ family, chainText }) => ({
    kind: 'kube-proxy-order',
    family,
    message:
      'the rules of kube-proxy and of the agent have one priority: those registered later run first, so restarts change the order; if the agent masquerades first, packets keep the mark of kube-proxy, which then masquerades the outer packets of a VXLAN overlay too',
    evidence: [`${chainText}: priority srcnat, as iptables has`],
    remedy:
      'use --backend=nftables, whose chain runs after kube-proxy; if no overlay of the cluster uses VXLAN, accept it: --accept-foreign=kube-proxy',
  }));
}

const SHOWN = 3;

/** What makes `nat` useless to all programs that have rules in it, such as kube-proxy, if the agent itself has taken nftables. */
export async function natFindings(
  { netlink }: Pick<Host, 'netlink'>,
  dataplane: Pick<Dataplane, 'iptables'>,
  families: readonly Family[],
): Promise<readonly Finding[]> {
  if (dataplane.iptables?.mode === 'nft') return [];
  const findings: Finding[] = [];
  for (const family of families) {
    const found = await netlink?.use(async (requests) => await natObstacle(requests, family)).catch(noAnswer);
    if (found === undefined) continue;
    const { message, remedy } = found;
    findings.push({ kind: 'nat-unusable', family, message, evidence: [], remedy });
  }
  return findings;
}

/**
 * The finding that the node forwards no new connection: iptables drops what no rule accepts, and none does. Whatever is unclear is
 * no finding.
 */
export async function forwardFindings(
  { netlink }: Pick<Host, 'netlink'>,
  family: Family,
): Promise<readonly Finding[]> {
  if ((await (netlink && dropsForwarded(netlink, family).catch(orNothing))) !== true) return [];
  const message =
    'iptables drops all new connections that the node forwards: the policy of the chain FORWARD is DROP, and no rule there accepts one';
  const remedy = `let the CNI plugin or kube-proxy accept the packets of pods, or find out what has set the policy of FORWARD, and set it back on the node: ${IPTABLES_OF[family]} -P FORWARD ACCEPT`;
  return [{ kind: 'forward-drop', family, message, evidence: ['-P FORWARD DROP'], remedy }];
}

/** @throws {TooManyRules | NetlinkError} */
async function dropsForwarded(netlink: Netlink, family: Family): Promise<boolean> {
  const place = { family, table: 'filter', chain: 'FORWARD' } as const;
  const { hook } = (await netlink.use((requests) => requests.chain(place))) ?? {};
  if (hook?.policy !== NF_DROP) return false;
  const budget = new Budget(COMMAND_LIMITS);
  const reader = createNftReader(netlink, place, family, '', budget);
  const base = await readBaseChain({ chainText: '', family, name: place.chain }, MOST_CHAINS.nft, reader);
  let isClear = base?.unread.length === 0 && base.cutBy === undefined;
  for (const chain of base?.chains.values() ?? [])
    await chain.each((rule) => {
      isClear &&= acceptsNoConnection(rule);
    }, budget);
  return isClear;
}

const NF_DROP = 0;

/** What is so only for packets of a connection that has been accepted before, as iptables and nftables ask for it. */
const IS_KNOWN =
  /^(?:conntrack ctstate|state state|ct state) (?:established|related)(?:,(?:established|related))*$/i;

/**
 * Whether a rule accepts no new connection of a pod. kube-proxy accepts known connections, and packets with its mark: a rule for
 * marked packets has no destinations. A target in brackets, which has no words, may be one that accepts, such as a queue.
 */
function acceptsNoConnection({ outcome, text, destinations, conditions }: Rule): boolean {
  if (destinations.ranges.length === 0 || conditions.some((one) => IS_KNOWN.test(one.text))) return true;
  if (outcome.kind === 'else') return / (?:-j DROP|drop)$/.test(text);
  if (outcome.kind === 'goes on') return !outcome.isGuess && !text.includes('[target ');
  return ['returns', 'jump', 'goto'].includes(outcome.kind);
}

/** For whoever can do without rules that cannot be read: whoever looks for foreign rules says so. */
function orNothing(error: unknown): undefined {
  if (!(error instanceof TooManyRules)) noAnswer(error);
}

/**
 * The finding that both modes hold rules: most programs see the rules of one mode, but the kernel applies both.
 *
 * @throws {DataplaneError}
 */
export async function bothModesFindings(
  host: Host,
  locations: readonly RuleLocation[],
  family: Family,
): Promise<readonly Finding[]> {
  const evidence: string[] = [];
  let modes = 0;
  for (const { dataplane } of locations.filter((location) => location.family === family)) {
    if (dataplane.iptables === undefined) continue;
    const { mode, suffix } = dataplane.iptables;
    const rules = await builtInRules(chainLister(host, family, mode, suffix));
    if (rules.length === 0) continue;
    modes += 1;
    evidence.push(`${dataplane.name}:`, ...truncated(rules, SHOWN, String).map((rule) => `  ${rule}`));
  }
  if (modes < 2) return [];
  const message = 'both iptables modes hold rules in the built-in chains of nat';
  const remedy =
    'let all programs of the node use one mode: update-alternatives --config iptables on the node, iptables of the same mode in images';
  return [{ kind: 'both-modes', family, message, evidence, remedy }];
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
  const message = `${agentText(holder)} runs on this node, but does not answer: it hangs or is stopped, or it starts only now`;
  const remedy =
    'run doctor again; if it stays so, the agent follows no change: look at its log, then delete its pod';
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
    "if they are of --once, this is as it must be: run it again after each change; else look at the node's pod of the DaemonSet: why does it not run? Only if the node is to have no rules, remove them: ip-masq-agent cleanup";
  return [{ kind: 'no-agent', message, evidence, remedy }];
}

/** The finding about rules of an older agent in the agent's chain, or that lead to it. */
function olderAgentFinding({ dataplane, family, rules }: RulesAtLocation): Finding {
  const message = `ip-masq-agent v1 or v2 has written rules for the agent's chain in ${dataplane.name}`;
  return { kind: 'older-agent', family, message, evidence: rules, remedy: OLDER_AGENT_REMEDY };
}
