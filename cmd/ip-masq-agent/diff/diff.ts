import { readPlaces } from '../../../lib/agent/places.ts';
import { preview } from '../../../lib/agent/preview.ts';
import { retrying } from '../../../lib/agent/retry.ts';
import { FAMILIES } from '../../../lib/cidr/address.ts';
import { systemHost } from '../../../lib/dataplane/host.ts';
import { listPlaces, openDataplane } from '../../../lib/dataplane/open.ts';
import { prettyJson } from '../../../lib/text/escape.ts';
import type { Args } from '../command.ts';
import type { DIFF_FLAGS } from '../command-flags.ts';
import { EXIT } from '../exit.ts';
import { dataplaneOptions, foreignHost, keptFamilies, retryOptions } from '../from-flags.ts';
import { print, wantsColour } from '../print.ts';
import { readConfig } from '../read-config.ts';
import { diffText } from './diff-text.ts';
import { differenceJson, differenceOf, differs } from './difference.ts';

/** Shows what a sync would change in the kernel now. */
export async function diff({ flags }: Args<typeof DIFF_FLAGS>): Promise<number> {
  const isText = flags.output === 'text';
  const config = await readConfig(flags, { forPeople: isText });
  const host = systemHost(flags['sync-timeout']);
  const retry = retryOptions(flags);
  const options = dataplaneOptions(flags);
  const { dataplane } = await retrying(() => openDataplane(options, host, foreignHost(flags)), retry);
  const places = await listPlaces(options, host);
  // The preview looks at both families of the dataplane that is used.
  const others = places.filter((place) => place.dataplane.name !== dataplane.name);
  const elsewhere = await readPlaces(others, retry);
  const differences = [];
  for (const family of FAMILIES) {
    const one = await preview({ dataplane, family }, config, keptFamilies(flags), retry);
    differences.push(differenceOf(one, elsewhere));
  }
  if (isText) print(diffText(differences, { colour: wantsColour(process.stdout) }));
  else print(prettyJson(differences.map(differenceJson)));
  return differences.some(differs) ? EXIT.different : EXIT.ok;
}
