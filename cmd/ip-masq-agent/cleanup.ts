import { inWords } from '../../lib/agent/holder.ts';
import { tryLock } from '../../lib/agent/lock.ts';
import { describeRemoval, removeAll } from '../../lib/agent/remove.ts';
import { systemHost } from '../../lib/dataplane/host.ts';
import { installedDataplanes } from '../../lib/dataplane/open.ts';
import { SystemError } from '../../lib/text/error.ts';
import { printable } from '../../lib/text/escape.ts';
import { buildInfo } from './build-info.ts';
import type { Args } from './command.ts';
import type { CLEANUP_FLAGS } from './command-flags.ts';
import { EXIT } from './exit.ts';
import { dataplaneOptions, retryOptions } from './from-flags.ts';
import { print } from './print.ts';
import { stopSignal } from './signals.ts';

/**
 * Removes all of the agent's rules from the node.
 *
 * @throws {SystemError} if an agent runs on this node, unless forced
 */
export async function cleanup({ flags }: Args<typeof CLEANUP_FLAGS>): Promise<number> {
  // Without a holder, this process has the lock now: no agent starts until it ends.
  const holder = await tryLock({ version: buildInfo().version, flags: [] }, stopSignal);
  if (holder?.kind === 'unproven')
    complain(`cannot tell whether an agent runs on this node: ${holder.reason}`);
  if (holder?.kind === 'agent' && !flags.force)
    throw new SystemError(
      `${inWords(holder)} runs on this node, and would write the rules again; stop it first, or use --force`,
    );
  const places = await installedDataplanes(dataplaneOptions(flags), systemHost(flags['sync-timeout']));
  const removals = await removeAll(places, retryOptions(flags));
  for (const removal of removals) {
    const { outcome } = removal;
    const rules = outcome.kind === 'removed' ? outcome.rules : [];
    const text = [describeRemoval(removal), ...rules].map(printable).join('\n  ');
    if (outcome.kind === 'failed') console.error(`ip-masq-agent: ${text}`);
    else print(`${text}\n`);
  }
  if (holder?.kind === 'agent')
    complain(
      `${inWords(holder)} runs on this node, and writes the rules again: at once, or at its next resync; stop it, then run cleanup`,
    );
  return removals.some(({ outcome }) => outcome.kind === 'failed') ? EXIT.system : EXIT.ok;
}

function complain(message: string): void {
  console.error(printable(`ip-masq-agent: ${message}`));
}
