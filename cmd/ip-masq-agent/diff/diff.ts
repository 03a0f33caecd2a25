import { systemHost } from '../../../lib/dataplane/host.ts';
import type { Args } from '../command.ts';
import type { INPUT_FLAGS } from '../command-flags.ts';
import { EXIT } from '../exit.ts';
import { dataplaneOptions, retryOptions } from '../from-flags.ts';
import { openPatiently } from '../patient.ts';
import { preview } from '../preview.ts';
import { print, wantsColour } from '../print.ts';
import { readConfig } from '../read-config.ts';
import { diffText } from './diff-text.ts';

/** Shows what a sync would change in the kernel now. */
export async function diff({ flags }: Args<typeof INPUT_FLAGS>): Promise<number> {
  const config = await readConfig(flags, { forPeople: true });
  const host = systemHost(flags['sync-timeout']);
  const dataplane = await openPatiently(dataplaneOptions(flags), host, retryOptions(flags));
  const previews = [
    await preview(dataplane, config, 'IPv4', flags['enable-ipv6']),
    await preview(dataplane, config, 'IPv6', flags['enable-ipv6']),
  ];
  print(diffText(dataplane.name, previews, { colour: wantsColour(process.stdout) }));
  return previews.some(({ plan }) => plan !== undefined) ? EXIT.different : EXIT.ok;
}
