import { diffText } from '../../lib/agent/diff-text.ts';
import { openPatiently } from '../../lib/agent/patient.ts';
import { goalsFor, preview } from '../../lib/agent/preview.ts';
import { systemHost } from '../../lib/dataplane/host.ts';
import type { Args } from './command.ts';
import { readConfig } from './config.ts';
import { EXIT } from './exit.ts';
import { dataplaneOptions, retryOptions } from './options.ts';
import { print, wantsColour } from './print.ts';

/** Shows what a sync would change in the kernel now. */
export async function diff({ flags }: Args): Promise<number> {
  const goals = goalsFor(await readConfig(flags), flags['enable-ipv6']);
  const dataplane = await openPatiently(
    dataplaneOptions(flags),
    systemHost(flags['sync-timeout']),
    retryOptions(flags),
  );
  const previews = await preview(dataplane, goals);
  print(diffText(dataplane.name, previews, { colour: wantsColour(process.stdout) }));
  return previews.some(({ plan }) => plan !== undefined) ? EXIT.different : EXIT.ok;
}
