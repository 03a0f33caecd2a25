import { type Agent, agentText } from '../../lib/agent/holder.ts';
import { removeKeptConfig } from '../../lib/agent/kept-config.ts';
import { tryLock } from '../../lib/agent/lock.ts';
import { describeRemoval, hasFailed, type Removal, removeFromAll } from '../../lib/agent/remove.ts';
import { type RuleLocation, ruleLocationName } from '../../lib/dataplane/dataplane.ts';
import { listRuleLocations } from '../../lib/dataplane/open.ts';
import { SystemError } from '../../lib/text/error.ts';
import { printable } from '../../lib/text/escape.ts';
import { flagsOf } from './agent-flags.ts';
import { buildInfo } from './build-info.ts';
import type { Args } from './command.ts';
import type { CLEANUP_FLAGS } from './command-flags.ts';
import { EXIT } from './exit.ts';
import { dataplaneOptions, keptFamilies, retryOptions, silentHost } from './from-flags.ts';
import { complain, print, printError } from './print.ts';
import { stopSignal } from './signals.ts';

/**
 * Removes all of the agent's rules from the node.
 *
 * @throws {SystemError} if an agent runs on this node, unless forced
 */
export async function cleanup({ flags }: Args<typeof CLEANUP_FLAGS>): Promise<number> {
  const isDry = flags['dry-run'];
  // Without a holder, this process has the lock now: no agent starts until it ends.
  const introduce = () => ({ version: buildInfo().version, flags: [] });
  const holder = isDry ? undefined : await tryLock(introduce, stopSignal);
  if (holder?.kind === 'unproven')
    complain(`cannot tell whether an agent runs on this node: ${holder.reason}`);
  if (holder?.kind === 'agent' && !flags.force)
    throw new SystemError(
      `${agentText(holder)} runs on this node, and would write the rules again; stop it first, or use --force`,
    );
  const all = await listRuleLocations(dataplaneOptions(flags), silentHost(flags));
  const { places, advice } =
    holder?.kind === 'agent'
      ? withRunningAgent(holder, flags['masq-chain'], all)
      : { places: all, advice: undefined };
  const removals = await removeFromAll(places, retryOptions(flags), isDry);
  const dir = flags['state-dir'];
  const state = isDry || dir === '' ? undefined : await removeKeptConfig(dir);
  const isDone = removals.every((removal) => !hasFailed(removal) && removal.undeletable.length === 0);
  removals.forEach(tell);
  if (state !== undefined) complain(state);
  if (advice !== undefined) complain(advice);
  return isDone ? EXIT.ok : EXIT.system;
}

function isTable({ dataplane }: RuleLocation): boolean {
  return dataplane.iptables === undefined;
}

function tell(removal: Removal): void {
  const { rules = [], undeletable } = removal;
  const text = [describeRemoval(removal), ...rules].map(printable).join('\n  ');
  if (hasFailed(removal)) printError(`ip-masq-agent: ${text}`);
  else print(`${text}\n`);
  for (const one of undeletable) complain(`${ruleLocationName(removal)}: ${one}`);
}

/** What is removed beside a running agent, and what to tell of it: nothing that an agent with another chain keeps. */
function withRunningAgent(
  agent: Agent,
  chain: string,
  locations: readonly RuleLocation[],
): { readonly places: readonly RuleLocation[]; readonly advice: string | undefined } {
  const runs = `${agentText(agent)} runs on this node`;
  const kept = flagsOf(agent);
  if (kept === undefined || kept['masq-chain'] === chain) {
    const advice = `${runs}, and writes the rules again: at once, or at its next resync; stop it, then run cleanup`;
    return { places: locations, advice };
  }
  // Whatever its chain is called, the tables of an agent have one name.
  if (kept.backend === 'iptables' || !locations.some(isTable))
    return { places: locations, advice: undefined };
  const families = keptFamilies(kept);
  return {
    places: locations.filter((place) => !isTable(place) || !families.includes(place.family)),
    advice: `${runs}, with --masq-chain=${kept['masq-chain']}: its tables of nftables stay; to remove them, stop it, then run cleanup with that flag`,
  };
}
