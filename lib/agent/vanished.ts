import type { ConfigOptions } from '../config/config.ts';
import { byteOrder, type ConfigFile, vanishedText } from '../config/config-file.ts';
import { emptyFilesOf, type LoadedConfig, loadConfig } from '../config/load.ts';
import type { Logger } from '../log/log.ts';
import { printable } from '../text/escape.ts';

/**
 * Reads the config files, and those that have vanished while this process runs: each keeps its last text for a while, so that a
 * ConfigMap which somebody has pruned by mistake does not change what happens to packets at once.
 */
export class VanishedFiles {
  readonly #graceMs: number;
  readonly #log: Logger;
  #endsAt: ReadonlyMap<string, number> = new Map();

  constructor(graceMs: number, log: Logger) {
    this.#graceMs = graceMs;
    this.#log = log;
  }

  /** The files of the last valid config that are gone, and until when their last texts apply, as `now` tells it. */
  get endsAt(): ReadonlyMap<string, number> {
    return this.#endsAt;
  }

  /**
   * @param last the last reading
   * @param valid the last reading that was valid
   */
  async load(
    dir: string,
    options: ConfigOptions,
    last: LoadedConfig | undefined,
    valid: LoadedConfig | undefined,
  ): Promise<LoadedConfig> {
    const reading = await loadConfig(dir, options, last, (found) => {
      const gone = filesBesides(found, valid, options.requiredFiles);
      this.#update(gone, found);
      const kept = gone.filter(({ name }) => (this.#endsAt.get(name) ?? 0) > now());
      return [...found, ...kept].toSorted((a, b) => byteOrder(a.name, b.name));
    });
    // Until there is another valid config, the last one has all its files.
    if (reading.config !== undefined) {
      const names = new Set(reading.configFiles.map(({ name }) => name));
      this.#endsAt = new Map([...this.#endsAt].filter(([name]) => names.has(name)));
    }
    return reading;
  }

  #update(gone: readonly ConfigFile[], found: readonly ConfigFile[]): void {
    const before = this.#endsAt;
    const end = now() + this.#graceMs;
    this.#endsAt = new Map(gone.map(({ name }) => [name, before.get(name) ?? end]));
    for (const { name } of found)
      if (before.has(name)) this.#log.info({ file: name }, `${printable(name)} is there again`);
    if (this.#graceMs === 0) return;
    for (const [file, endsAt] of this.#endsAt)
      if (!before.has(file))
        this.#log.warn(
          { file },
          `${printable(vanishedText(file, new Date(endsAt).toISOString()))}, or until the agent restarts (--vanished-grace): restore its ConfigMap or key or, if it is to go, put a file in its place that contains only {}`,
        );
  }
}

/** The config files of the reading that are not found. One that sets no key leaves nothing behind. */
function filesBesides(
  found: readonly ConfigFile[],
  reading: LoadedConfig | undefined,
  required: readonly string[],
): readonly ConfigFile[] {
  const present = new Set([...required, ...found.map(({ name }) => name)]);
  const empty = new Set(reading && emptyFilesOf(reading));
  return (reading?.configFiles ?? []).filter(({ name }) => !present.has(name) && !empty.has(name));
}

/** A time of Date.now() that does not change if the clock is set. */
export function now(): number {
  return performance.timeOrigin + performance.now();
}
