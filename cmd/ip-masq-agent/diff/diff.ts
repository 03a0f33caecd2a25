import { systemHost } from '../../../lib/dataplane/host.ts';
import type { Args } from '../command.ts';
import { EXIT } from '../exit.ts';
import { dataplaneOptions, retryOptions } from '../from-flags.ts';
import { openPatiently } from '../patient.ts';
import { print, wantsColour } from '../print.ts';
import { readConfig } from '../read-config.ts';
import { diffText } from './diff-text.ts';
import { goalsFor, preview } from './preview.ts';

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
