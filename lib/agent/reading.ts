import type { ConfigOptions } from '../config/config.ts';
import { byteOrder, type ConfigFile, vanishedText } from '../config/config-file.ts';
import { InvalidConfigError } from '../config/invalid-config.ts';
import { emptyFilesOf, type LoadedConfig, loadConfig } from '../config/load.ts';
import type { Logger } from '../log/log.ts';
import { printable } from '../text/escape.ts';
import { logConfig } from './log-changes.ts';
import { type ConfigState, clockTime, type ValidConfig } from './state.ts';

export interface ReaderOptions {
  readonly configDir: string;
  readonly config: ConfigOptions;
  /** Milliseconds between two readings, if no config file says otherwise. */
  readonly resyncInterval: number;
  /** Milliseconds for which a config file that has vanished keeps its last text. */
  readonly graceMs?: number;
}

/** Reads the config files, and logs the config and its problems if the files are not the same as before. */
export async function readConfig(
  { configDir, config: options, graceMs = 0 }: ReaderOptions,
  before: ConfigState,
  log: Logger,
): Promise<ConfigState> {
  const readAt = performance.now();
  let { vanished } = before;
  // After a restart, what is not there is not there.
  const own = before.valid?.keptSince === undefined ? before.valid : undefined;
  const reading = await loadConfig(configDir, options, before.reading, (found) => {
    const gone = filesBesides(found, own, options.requiredFiles);
    vanished = missed(gone, found, before.vanished, graceMs, log);
    const kept = gone.filter(({ name }) => (vanished.get(name) ?? 0) > performance.now());
    return [...found, ...kept].toSorted((a, b) => byteOrder(a.name, b.name));
  });
  const { reading: last, invalid } = before;
  if (reading !== last) logConfig(log, reading);
  if (!isValid(reading)) {
    // Until there is another valid config, the last one has all its files.
    const error = new InvalidConfigError(reading.problems, reading.configFiles);
    return { ...before, reading, readAt, vanished, invalid: { error, since: invalid?.since ?? Date.now() } };
  }
  if (invalid !== undefined) log.info('the config is valid again');
  for (const { name: file } of filesBesides(reading.configFiles, own, []))
    log.warn(
      { file },
      `${printable(file)} is gone since the last reading: the config is now read without it; if this is not intended, restore the ConfigMap or its key`,
    );
  const names = new Set(reading.configFiles.map(({ name }) => name));
  vanished = new Map([...vanished].filter(([name]) => names.has(name)));
  return { reading, readAt, valid: reading, vanished, invalid: undefined };
}

function isValid(loaded: LoadedConfig): loaded is ValidConfig {
  return loaded.config !== undefined;
}

/** The config files of the reading that are not found. One that sets no key leaves nothing behind. */
function filesBesides(
  found: readonly ConfigFile[],
  reading: LoadedConfig | undefined,
  required: readonly string[],
): readonly ConfigFile[] {
  const there = new Set([...required, ...found.map(({ name }) => name)]);
  const empty = new Set(reading && emptyFilesOf(reading));
  return (reading?.configFiles ?? []).filter(({ name }) => !there.has(name) && !empty.has(name));
}

/**
 * Until when the last texts of files that are gone apply, so that a ConfigMap which somebody has pruned by mistake does not change
 * what happens to packets at once.
 */
function missed(
  gone: readonly ConfigFile[],
  found: readonly ConfigFile[],
  before: ReadonlyMap<string, number>,
  graceMs: number,
  log: Logger,
): ReadonlyMap<string, number> {
  const end = performance.now() + graceMs;
  for (const { name: file } of found)
    if (before.has(file)) log.info({ file }, `${printable(file)} is there again`);
  for (const { name: file } of graceMs === 0 ? [] : gone)
    if (!before.has(file))
      log.warn(
        { file },
        `${printable(vanishedText(file, clockTime(end)))}, or until the agent restarts (--vanished-grace): restore its ConfigMap or key; if you no longer need it, put a file in its place that contains only {}`,
      );
  return new Map(gone.map(({ name }) => [name, before.get(name) ?? end]));
}
