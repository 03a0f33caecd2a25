import { type Removal, removeAll } from '../../lib/agent/cleanup.ts';
import { systemHost } from '../../lib/dataplane/host.ts';
import { openPlaces } from '../../lib/dataplane/open.ts';
import type { Args } from './command.ts';
import { EXIT } from './exit.ts';
import { dataplaneOptions } from './options.ts';
import { print } from './print.ts';
import { stopSignal } from './signals.ts';

/** Removes all rules of ours from the node. */
export async function cleanup({ flags }: Args): Promise<number> {
  const places = await openPlaces(dataplaneOptions(flags), systemHost(flags['sync-timeout']));
  const removals = await removeAll(places, {
    timeoutMs: flags['sync-timeout'],
    signal: stopSignal,
    onRetry: ({ message }) => console.error(`trying again: ${message}`),
  });
  for (const removal of removals) {
    print(`${[removalText(removal), ...removal.removed].join('\n  ')}\n`);
  }
  return EXIT.ok;
}

/** What was done in one place. */
export function removalText({ family, where, removed }: Removal): string {
  const count = removed.length === 1 ? '1 rule' : `${removed.length} rules`;
  const what = removed.length === 0 ? 'nothing of ours' : `removed ${count} of ours`;
  return `${family}, ${where}: ${what}`;
}
