import { leftoverPlaces, readLeftovers } from '../../../lib/agent/leftovers.ts';
import { openPatiently, patient } from '../../../lib/agent/patient.ts';
import { preview } from '../../../lib/agent/preview.ts';
import { systemHost } from '../../../lib/dataplane/host.ts';
import { installedDataplanes } from '../../../lib/dataplane/open.ts';
import { prettyJson } from '../../../lib/text/escape.ts';
import type { Args } from '../command.ts';
import type { DIFF_FLAGS } from '../command-flags.ts';
import { EXIT } from '../exit.ts';
import { dataplaneOptions, retryOptions } from '../from-flags.ts';
import { print, wantsColour } from '../print.ts';
import { readConfig } from '../read-config.ts';
import { differenceJson } from './diff-json.ts';
import { diffText } from './diff-text.ts';
import { differenceOf, differs } from './difference.ts';

const FAMILIES = ['IPv4', 'IPv6'] as const;

/** Shows what a sync would change in the kernel now. */
export async function diff({ flags }: Args<typeof DIFF_FLAGS>): Promise<number> {
  const isText = flags.output === 'text';
  const config = await readConfig(flags, { forPeople: isText });
  const host = systemHost(flags['sync-timeout']);
  const retry = retryOptions(flags);
  const dataplane = await openPatiently(dataplaneOptions(flags), host, retry);
  const installed = (await installedDataplanes(dataplaneOptions(flags), host)).map((one) => ({
    ...one,
    dataplane: patient(one.dataplane, retry),
  }));
  // The preview looks at both families of the dataplane that is used.
  const elsewhere = await readLeftovers(leftoverPlaces(installed, dataplane, FAMILIES));
  const differences = [];
  for (const family of FAMILIES) {
    const one = await preview(dataplane, config, family, flags['enable-ipv6']);
    differences.push(differenceOf(dataplane, one, elsewhere));
  }
  if (isText) print(diffText(differences, { colour: wantsColour(process.stdout) }));
  else print(prettyJson(differences.map(differenceJson)));
  return differences.some(differs) ? EXIT.different : EXIT.ok;
}
