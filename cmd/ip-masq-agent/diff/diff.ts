import { survey } from '../../../lib/agent/places.ts';
import { preview } from '../../../lib/agent/preview.ts';
import { systemHost } from '../../../lib/dataplane/host.ts';
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
  const seen = await survey(dataplaneOptions(flags), host, foreignHost(flags), retryOptions(flags));
  const differences = seen.used.map((place) =>
    differenceOf(preview(place, config, keptFamilies(flags)), seen.others),
  );
  if (isText) print(diffText(differences, { colour: wantsColour(process.stdout) }));
  else print(prettyJson(differences.map(differenceJson)));
  return differences.some(differs) ? EXIT.different : EXIT.ok;
}
