import { existsSync } from 'node:fs';
import { createReader, type LoadObserver, type ReaderOptions } from '../../../lib/agent/load.ts';
import type { Triggers } from '../../../lib/agent/triggers.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import { dataLink } from '../../../lib/config/read.ts';
import type { Logger } from '../../../lib/log/log.ts';
import { Notices } from '../../../lib/log/notices.ts';
import type { Rendered } from './formats.ts';
import type { OutputState } from './output-checks.ts';
import { writeOutput } from './output-file.ts';

export interface Output {
  readonly path: string;
  readonly render: (config: MergedConfig) => Promise<Rendered>;
  readonly loading: ReaderOptions;
  /** Whether an invalid config leaves an output file that is there as it is, instead of being an error. */
  readonly keeps: boolean;
}

/** The clause that says what an invalid config does to the output. */
export const UNCHANGED = 'the output file does not change';

/**
 * Renders the config files at each trigger, and writes the output file if its content changes. An error leaves the file as it
 * is.
 *
 * @throws {InvalidConfigError | SystemError}
 */
export async function keepOutput(
  { path, render, loading, keeps }: Output,
  triggers: Triggers,
  state: OutputState,
  log: Logger,
): Promise<void> {
  const keep = async () => (keeps && existsSync(path) ? UNCHANGED : undefined);
  const observer: LoadObserver = {
    onLoad: () => {},
    onInvalidConfig: (error) => {
      state.invalid = { error, since: state.invalid?.since ?? Date.now() };
    },
  };
  const reader = createReader({ ...loading, keep }, observer, log);
  const notices = new Notices(log);
  for await (const { reason } of triggers) {
    const version = dataLink(loading.configDir);
    const reading = await reader.read();
    triggers.interval = reader.interval;
    if (reading === undefined) continue;
    const { text, notes, isDefault } = await render(reading.config);
    const change = await writeOutput(path, isDefault ? undefined : text);
    state.invalid = undefined;
    state.rendered = { version, at: performance.now() };
    const fields = { reason, file: path };
    if (change === 'written') log.info(fields, 'output written');
    else if (change === 'removed')
      log.info(fields, 'no config file is left: output removed, its reader uses its own defaults');
    else log.debug(fields, 'the output does not change');
    notices.updateWarnings(notes);
  }
}
