import { systemHost } from '../../../lib/dataplane/host.ts';
import { examine } from '../../../lib/doctor/examine.ts';
import { painter } from '../../../lib/text/colour.ts';
import { prettyJson } from '../../../lib/text/escape.ts';
import type { Args } from '../command.ts';
import type { DOCTOR_FLAGS } from '../command-flags.ts';
import { EXIT } from '../exit.ts';
import { dataplaneOptions, foreignHost, retryOptions, sourcesOptions } from '../from-flags.ts';
import { print, wantsColour } from '../print.ts';
import { examinationText } from './doctor-text.ts';

/** Checks the node for what breaks masquerading. */
export async function doctor({ flags }: Args<typeof DOCTOR_FLAGS>): Promise<number> {
  const examination = await examine({
    sources: sourcesOptions(flags),
    dataplane: dataplaneOptions(flags),
    host: systemHost(flags['sync-timeout']),
    foreignHost: foreignHost(flags),
    acceptForeign: flags['accept-foreign'],
    retry: retryOptions(flags),
  });
  if (flags.output === 'json') print(prettyJson(examination));
  else print(examinationText(examination, painter(wantsColour(process.stdout))));
  return examination.findings.length === 0 ? EXIT.ok : EXIT.different;
}
