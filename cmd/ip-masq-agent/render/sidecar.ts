import { load, resyncInterval, type SourcesOptions, type ValidConfig } from '../../../lib/agent/load.ts';
import type { Wakes } from '../../../lib/agent/wakes.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import type { Logger } from '../../../lib/log/log.ts';
import type { Rendered } from './formats.ts';
import { writeOutput } from './output-file.ts';

/**
 * Keeps a file as the sources say, until the wakes end. After an error the file stays as it was written last.
 *
 * @throws {InvalidConfigError | SystemError}
 */
export async function keepOutput(
  path: string,
  render: (config: MergedConfig) => Promise<Rendered>,
  sources: SourcesOptions,
  wakes: Wakes,
  log: Logger,
): Promise<void> {
  let loaded: ValidConfig | undefined;
  let noted = '';
  for await (const { reason } of wakes) {
    loaded = await load(sources, loaded, log);
    wakes.interval = resyncInterval(loaded, sources);
    const { text, notes, isDefault } = await render(loaded.config);
    const change = await writeOutput(path, isDefault ? undefined : text);
    const fields = { reason, file: path };
    if (change === 'written') log.info(fields, 'output written');
    else if (change === 'removed')
      log.info(fields, 'no source is left: output removed, its reader takes its defaults');
    else log.debug(fields, 'the output has not changed');
    if (notes.join() !== noted) for (const note of notes) log.warn(note);
    noted = notes.join();
  }
}
