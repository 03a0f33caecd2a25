import { preview } from '../../../lib/agent/preview.ts';
import { survey } from '../../../lib/agent/rule-locations.ts';
import { configHash } from '../../../lib/config/config-hash.ts';
import type { Args } from '../command.ts';
import type { DIFF_FLAGS } from '../command-flags.ts';
import { differenceJson, differenceOf, differs, placeJson } from '../difference.ts';
import { EXIT } from '../exit.ts';
import { keptFamilies, nodeAccess } from '../from-flags.ts';
import { printResult } from '../print.ts';
import { errorJson, orInvalid, readConfig } from '../read-config.ts';
import { diffText, placesText } from './diff-text.ts';

export async function diff({ flags }: Args<typeof DIFF_FLAGS>): Promise<number> {
  const format = flags.output;
  const { config, error } = await orInvalid(readConfig(flags, { forPeople: format === 'text' }));
  const places = await survey(nodeAccess(flags));
  if (config === undefined) {
    const states = [...places.used, ...places.others];
    const json = { hash: null, families: [], places: states.map(placeJson), ...errorJson(error) };
    printResult(format, EXIT.config, json, () => placesText(states));
    throw error;
  }
  const differences = places.used.map((place) =>
    differenceOf(preview(place, config, keptFamilies(flags)), places.others),
  );
  const code = differences.some(differs) ? EXIT.different : EXIT.ok;
  const json = { hash: configHash(config), families: differences.map(differenceJson) };
  return printResult(format, code, json, (paint) => diffText(differences, paint));
}
