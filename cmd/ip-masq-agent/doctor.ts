import { examine } from '../../lib/agent/doctor/examine.ts';
import { examinationText } from '../../lib/agent/doctor/text.ts';
import { prettyJson } from '../../lib/config/report/json.ts';
import { systemHost } from '../../lib/dataplane/host.ts';
import type { Args } from './command.ts';
import type { DOCTOR_FLAGS } from './commands.ts';
import { EXIT } from './exit.ts';
import { dataplaneOptions, retryOptions, sourcesOptions } from './options.ts';
import { print } from './print.ts';

/** Looks at the node for what breaks masquerading. */
export async function doctor({ flags }: Args<typeof DOCTOR_FLAGS>): Promise<number> {
  const examination = await examine({
    sources: sourcesOptions(flags),
    dataplane: dataplaneOptions(flags),
    host: systemHost(flags['sync-timeout']),
    retry: retryOptions(flags),
  });
  print(flags.output === 'json' ? prettyJson(examination) : examinationText(examination));
  return examination.findings.length === 0 ? EXIT.ok : EXIT.different;
}
