import {
  isValid,
  read,
  resyncInterval,
  type SourcesOptions,
  type ValidConfig,
} from '../../../lib/agent/load.ts';
import type { Wakes } from '../../../lib/agent/wakes.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import { InvalidConfigError } from '../../../lib/config/invalid-config.ts';
import type { Logger } from '../../../lib/log/log.ts';
import type { Rendered } from './formats.ts';
import { writeOutput } from './output-file.ts';

/**
 * Renders the sources at each wake, and writes the output file if its content changes. An error leaves the file as it
 * is.
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
    const reading = await read(sources, loaded, log);
    if (!isValid(reading)) throw new InvalidConfigError(reading.problems, reading.sources);
    loaded = reading;
    wakes.interval = resyncInterval(loaded, sources);
    const { text, notes, isDefault } = await render(loaded.config);
    const change = await writeOutput(path, isDefault ? undefined : text);
    const fields = { reason, file: path };
    if (change === 'written') log.info(fields, 'output written');
    else if (change === 'removed')
      log.info(fields, 'no source is left: output removed, its reader uses its own defaults');
    else log.debug(fields, 'the output does not change');
    if (notes.join() !== noted) for (const note of notes) log.warn(note);
    noted = notes.join();
  }
}
