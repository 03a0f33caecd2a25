import { existsSync } from 'node:fs';
import { type ReaderOptions, readConfig } from '../../../lib/agent/reading.ts';
import type { Reasons } from '../../../lib/agent/reasons.ts';
import { resyncAt } from '../../../lib/agent/state.ts';
import { directoryWatch } from '../../../lib/agent/watch-directory.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import { dataLink } from '../../../lib/config/read.ts';
import type { Notices } from '../../../lib/log/notices.ts';
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

/** The agent's node is not this process's: nothing in the kernel is waited for. */
const NO_PAUSE = { pauseEndsAt: Number.NEGATIVE_INFINITY };

/**
 * Renders the config files for each reason, and writes the output file if its content changes. An error leaves the file as it is.
 *
 * @throws {InvalidConfigError | SystemError}
 */
export async function keepOutput(
  { path, render, loading, keeps }: Output,
  reasons: Reasons,
  state: OutputState,
  notices: Notices,
  signal: AbortSignal,
): Promise<void> {
  const { log } = notices;
  const { configDir, resyncInterval } = loading;
  const watchDirectory = directoryWatch(configDir, () => reasons.add('change'), notices, signal);
  for (;;) {
    const schedule = { ...NO_PAUSE, resyncAt: resyncAt(state.config, resyncInterval) };
    const trigger = await reasons.take(schedule, signal);
    if (trigger === undefined) return;
    watchDirectory();
    const version = dataLink(configDir);
    const before = state.config.reading;
    state.config = await readConfig(loading, state.config, log);
    const { invalid, reading, valid } = state.config;
    if (invalid !== undefined && !(keeps && existsSync(path))) throw invalid.error;
    if (invalid !== undefined && reading !== before) log.error(`${invalid.error.message}; ${UNCHANGED}`);
    if (invalid !== undefined || valid === undefined) continue;
    const rendered = await render(valid.config);
    const change = await writeOutput(path, rendered.isDefault ? undefined : rendered.text);
    state.rendered = { version, at: performance.now() };
    log[LEVEL[change]]({ reason: trigger.reason, file: path }, SAID[change]);
    notices.warn('output', rendered.notes);
  }
}

const LEVEL = { written: 'info', removed: 'info', unchanged: 'debug', absent: 'debug' } as const;

const SAID = {
  written: 'output written',
  removed: 'no config file is left: output removed, its reader uses its own defaults',
  unchanged: 'the output does not change',
  absent: 'the output does not change',
} as const;
