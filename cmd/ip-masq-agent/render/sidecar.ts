import type { Sources } from '../../../lib/agent/sources.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import type { Logger } from '../../../lib/log/log.ts';
import type { Rendered } from './formats.ts';
import { writeOutput } from './output-file.ts';

/**
 * Keeps a file as the sources say, until the signal aborts. At an error the file stays as it was written last.
 *
 * @throws {InvalidConfigError | OutputError}
 */
export async function keepOutput(
  path: string,
  render: (config: MergedConfig) => Promise<Rendered>,
  sources: Sources,
  log: Logger,
  signal: AbortSignal,
): Promise<void> {
  let notes = '';
  await sources.follow(async ({ reason }) => {
    const rendered = await render(await sources.load());
    const change = await writeOutput(path, rendered.isDefault ? undefined : rendered.text);
    const fields = { reason, file: path };
    if (change === 'written') log.info(fields, 'output written');
    else if (change === 'removed')
      log.info(fields, 'no source is left: output removed, its reader takes its defaults');
    else log.debug(fields, 'output is as it should be');
    if (rendered.notes.join() !== notes) for (const note of rendered.notes) log.warn(note);
    notes = rendered.notes.join();
  }, signal);
}
