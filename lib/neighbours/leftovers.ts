import type { Dataplane, Installed, Observed } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Family } from '../policy/policy.ts';
import { OTHER_AGENT } from './author.ts';
import type { ForeignFinding } from './find.ts';
import type { Finding } from './finding.ts';

/** The agent's chain or table, with rules, in a place where this run keeps none. */
export interface Found {
  readonly family: Family;
  /** The dataplane's name. */
  readonly where: string;
  readonly rules: readonly string[];
}

/** A leftover, as it was read. */
export interface Leftover extends Found {
  readonly observed: Observed;
}

/** A place that cannot be read. */
export interface Unread {
  readonly family: Family;
  readonly where: string;
  readonly error: DataplaneError;
}

/** The dataplanes and families that can have leftovers: all except those in which the agent keeps rules now. */
export function leftoverPlaces(
  installed: readonly Installed[],
  used: Dataplane,
  kept: readonly Family[],
): readonly Installed[] {
  return installed.map(({ dataplane, families }) => ({
    dataplane,
    families: dataplane.name === used.name ? families.filter((family) => !kept.includes(family)) : families,
  }));
}

/** The leftovers in these places, and the places that cannot be read. */
export async function readLeftovers(
  places: readonly Installed[],
): Promise<{ readonly found: readonly Leftover[]; readonly unread: readonly Unread[] }> {
  const found: Leftover[] = [];
  const unread: Unread[] = [];
  for (const { dataplane, families } of places) {
    const where = dataplane.name;
    for (const family of families) {
      try {
        const observed = await dataplane.observe(family, 'more');
        const rules = observed.remove()?.current;
        if (rules !== undefined) found.push({ family, where, rules, observed });
      } catch (error) {
        if (!(error instanceof DataplaneError)) throw error;
        if (!error.meansNoRules) unread.push({ family, where, error });
      }
    }
  }
  return { found, unread };
}

/**
 * The leftovers in these places.
 *
 * @throws {DataplaneError} if a place cannot be read
 */
export async function findLeftovers(places: readonly Installed[]): Promise<readonly Leftover[]> {
  const { found, unread } = await readLeftovers(places);
  if (unread[0] !== undefined) throw unread[0].error;
  return found;
}

/** The words in the comments of v1 and v2 that this agent does not use, and the quotes in the comment of v2's jump. */
const OLDER_AGENT = / subject to (?:MASQUERADE|SNAT)\b|--comment "\\"ip-masq-agent: ensure /;

/** Whether ip-masq-agent v1 or v2 has written one of the rules: both name their chain as this agent does. */
export function isOfOlderAgent(rules: readonly string[]): boolean {
  return rules.some((rule) => OLDER_AGENT.test(rule));
}

/** What to do about rules of v1 or v2. */
export const OLDER_AGENT_REMEDY =
  'do not run both: remove the DaemonSet of the older agent, as the migration guide says (docs/migration.md)';

/**
 * The finding about rules that have come back after the agent has removed them, so that another agent keeps them.
 *
 * @param accepted the ids of authors whose rules the operator knows and accepts
 */
export function othersFinding({ family, where, rules }: Found, accepted: readonly string[]): ForeignFinding {
  const who = isOfOlderAgent(rules) ? 'ip-masq-agent v1 or v2' : 'another agent';
  return {
    key: `others ${family} ${where}`,
    family,
    author: OTHER_AGENT,
    isAccepted: accepted.includes(OTHER_AGENT),
    isOnlyFromSources: false,
    rules: rules.filter((rule) => / -j MASQUERADE\b| counter masquerade\b/.test(rule)).length,
    message: `rules that this agent removed from ${where} are back, and stay: ${who} keeps a chain of the same name there, and may masquerade what the config does not masquerade`,
    evidence: rules,
    remedy: isOfOlderAgent(rules) ? OLDER_AGENT_REMEDY : 'find the other agent, and remove it',
  };
}

/** The findings of the doctor about places that the agent does not use. */
export async function leftoverFindings(used: Dataplane, place: Installed): Promise<readonly Finding[]> {
  if (place.dataplane.name === used.name) return [];
  return (await findLeftovers([place])).map(({ family, where, rules }): Finding => {
    if (isOfOlderAgent(rules)) return olderAgentFinding(family, where, rules);
    return {
      kind: 'chain-elsewhere',
      family,
      message: `the agent's rules are also in ${where}, but ${used.name} is used`,
      evidence: rules,
      remedy: 'stop the agent, run ip-masq-agent cleanup, start the agent again',
    };
  });
}

/** The finding about rules of an older agent in the agent's chain, or that lead to it. */
export function olderAgentFinding(family: Family, where: string, rules: readonly string[]): Finding {
  const message = `ip-masq-agent v1 or v2 has written rules for the agent's chain in ${where}`;
  return { kind: 'older-agent', family, message, evidence: rules, remedy: OLDER_AGENT_REMEDY };
}
