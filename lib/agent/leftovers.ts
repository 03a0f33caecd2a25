import { type RuleLocation, type RulesAtLocation, ruleLocationName } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Host } from '../dataplane/host.ts';
import { isOfOlderAgent, OLDER_AGENT_REMEDY } from '../dataplane/iptables/chain.ts';
import { listRuleLocations, possibleModes } from '../dataplane/open.ts';
import type { DataplaneOptions } from '../dataplane/options.ts';
import type { Logger } from '../log/log.ts';
import type { Notices } from '../log/notices.ts';
import { adviceText } from '../text/advice.ts';
import { oneAtATime } from './one-at-a-time.ts';
import { describeRemoval, hasFailed, logRemoval, removeFromAll } from './remove.ts';
import { observeRuleLocations } from './rule-locations.ts';
import type { Knowledge } from './state.ts';

/** Milliseconds until a busy kernel fails an attempt. */
const ATTEMPT_MS = 1_000;

/** The pauses after which an attempt that has failed is repeated: each is twice as long as the last. */
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 300_000;

export interface LeftoverOptions {
  readonly dataplane: DataplaneOptions;
  readonly host: Host;
  readonly agent: Knowledge;
  readonly notices: Notices;
  readonly signal: AbortSignal;
}

/**
 * Removes leftovers beside the loop, and tries again until it succeeds.
 *
 * @param onRemoval called when some have been removed: packets may be treated otherwise since
 * @returns what asks for it, only after the rules of this run are in the kernel, so that the node is never without rules
 */
export function leftoverRemoval(options: LeftoverOptions, onRemoval: () => void): () => void {
  const { agent, notices, signal } = options;
  let again: NodeJS.Timeout | undefined;
  let pause = FIRST_PAUSE_MS;
  const remove = oneAtATime<void>(async () => {
    clearTimeout(again);
    const before = agent.state.cleared.size;
    const failure = await removeLeftovers(options);
    if (agent.state.cleared.size > before) onRemoval();
    if (signal.aborted) return;
    const warning = () => notices.log.warn(`${failure}; trying again until it succeeds`);
    const found = failure === undefined ? [] : [['leftovers', warning] as const];
    notices.update('leftovers', new Map(found), 'no leftovers of an earlier run are left');
    if (failure !== undefined) again = setTimeout(remove, pause).unref();
    pause = failure === undefined ? FIRST_PAUSE_MS : Math.min(2 * pause, LONGEST_PAUSE_MS);
  }, notices.log);
  return remove;
}

/**
 * Removes leftovers of an earlier run in another dataplane, mode or family: once in each of these locations. If rules come
 * back there, another agent keeps a chain of the same name, and to remove them again would never end.
 *
 * @returns why it failed; undefined if nothing is left, or the signal has ended it
 */
export async function removeLeftovers(options: LeftoverOptions): Promise<string | undefined> {
  const { dataplane, host, agent, notices, signal } = options;
  const failures: string[] = [];
  try {
    const modes = await possibleModes(dataplane, host);
    const known: RuleLocation[] = [];
    const inUse = agent.state.dataplane;
    for (const location of await listRuleLocations(dataplane, host, modes)) {
      const { state } = agent;
      // The loop has chosen another dataplane, which may not hold the rules yet: the round that writes them asks again.
      if (state.dataplane !== inUse) return undefined;
      if (location.dataplane.name === state.dataplane?.name && state.families.has(location.family)) continue;
      if (state.cleared.has(ruleLocationName(location))) known.push(location);
      else failures.push(...(await remove(location, options)));
    }
    const states = await observeRuleLocations(known);
    const unreadable = states.find((one) => one.kind === 'unreadable');
    if (unreadable !== undefined) throw unreadable.error;
    const returned = states.filter((one) => one.kind === 'found');
    const tell = returned.map((one) => [ruleLocationName(one), () => logReturned(one, notices.log)] as const);
    notices.update('returned rules', new Map(tell));
  } catch (error) {
    // The signal ends a pause between two attempts with an AbortError.
    if (signal.aborted) return undefined;
    if (!(error instanceof DataplaneError)) throw error;
    failures.push(adviceText(error));
  }
  if (failures.length === 0) return undefined;
  return `cannot remove leftovers of an earlier run in another dataplane, mode or family: ${failures.join('; ')}`;
}

/** Removes what is in a location; returns what failed. */
async function remove(
  location: RuleLocation,
  { agent, notices, signal }: LeftoverOptions,
): Promise<readonly string[]> {
  const removals = await removeFromAll([location], { timeoutMs: ATTEMPT_MS, signal, onRetry: () => {} });
  for (const removal of removals) {
    if (removal.rules === undefined) continue;
    agent.set({ cleared: new Set([...agent.state.cleared, ruleLocationName(removal)]) });
    logRemoval(notices.log, removal, 'left by an earlier run: ');
  }
  return removals.filter(hasFailed).map(describeRemoval);
}

/** Rules that have come back after the agent has removed them: another agent keeps them. */
function logReturned({ dataplane, family, rules }: RulesAtLocation, log: Logger): void {
  const isOlder = isOfOlderAgent(rules);
  const who = isOlder ? 'ip-masq-agent v1 or v2' : 'another agent';
  log.warn(
    { family, rules },
    `${family}: rules that this agent removed from ${dataplane.name} are back, and stay: ${who} keeps a chain of the same name there; ${isOlder ? OLDER_AGENT_REMEDY : 'find the other agent, and remove it'}`,
  );
}
