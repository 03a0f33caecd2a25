import { systemHost } from '../../../lib/dataplane/host.ts';
import { installedDataplanes } from '../../../lib/dataplane/open.ts';
import type { Args } from '../command.ts';
import type { INPUT_FLAGS } from '../command-flags.ts';
import { EXIT } from '../exit.ts';
import { dataplaneOptions, retryOptions } from '../from-flags.ts';
import { openPatiently, patient } from '../patient.ts';
import { preview } from '../preview.ts';
import { print, wantsColour } from '../print.ts';
import { readConfig } from '../read-config.ts';
import { diffText } from './diff-text.ts';
import { type Leftover, leftoversIn, type Unread } from './leftovers.ts';

/** Shows what a sync would change in the kernel now. */
export async function diff({ flags }: Args<typeof INPUT_FLAGS>): Promise<number> {
  const config = await readConfig(flags, { forPeople: true });
  const host = systemHost(flags['sync-timeout']);
  const dataplane = await openPatiently(dataplaneOptions(flags), host, retryOptions(flags));
  const previews = [
    await preview(dataplane, config, 'IPv4', flags['enable-ipv6']),
    await preview(dataplane, config, 'IPv6', flags['enable-ipv6']),
  ];
  const leftovers: (Leftover | Unread)[] = [];
  for (const one of await installedDataplanes(dataplaneOptions(flags), host))
    leftovers.push(
      ...(await leftoversIn({ ...one, dataplane: patient(one.dataplane, retryOptions(flags)) }, dataplane)),
    );
  print(diffText(dataplane.name, previews, leftovers, { colour: wantsColour(process.stdout) }));
  const differs = previews.some(({ plan }) => plan !== undefined) || leftovers.some((one) => 'rules' in one);
  return differs ? EXIT.different : EXIT.ok;
}
