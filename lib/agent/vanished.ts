import type { ConfigOptions } from '../config/config.ts';
import { byteOrder, type ConfigFile } from '../config/config-file.ts';
import { type LoadedConfig, loadConfig, mergeConfigFiles } from '../config/load.ts';
import type { Logger } from '../log/log.ts';
import { printable } from '../text/escape.ts';

/**
 * Reads the config files, and those of the last valid config that have vanished lately: each keeps its last text for a while, so
 * that a ConfigMap which somebody has pruned by mistake does not change what happens to packets at once.
 */
export class VanishedFiles {
  readonly #graceMs: number;
  readonly #log: Logger;
  #missedAt: ReadonlyMap<string, number>;
  /** Each process warns of what it finds missing. */
  #told: ReadonlySet<string> = new Set();

  /** @param missedAt when files were first missed by an earlier run */
  constructor(graceMs: number, missedAt: ReadonlyMap<string, number> = new Map(), log: Logger) {
    this.#graceMs = graceMs;
    this.#missedAt = missedAt;
    this.#log = log;
  }

  /** When each file of the last valid config was first missed that is gone, as Date.now() says it. */
  get missedAt(): ReadonlyMap<string, number> {
    return this.#missedAt;
  }

  /** Until when their last texts count. */
  get endsAt(): ReadonlyMap<string, number> {
    return new Map(Array.from(this.#missedAt, ([name, at]) => [name, at + this.#graceMs]));
  }

  /**
   * @param before the last reading
   * @param valid the config files of the last valid config
   */
  async load(
    dir: string,
    options: ConfigOptions,
    before: LoadedConfig | undefined,
    valid: readonly ConfigFile[],
  ): Promise<LoadedConfig> {
    let found: readonly ConfigFile[] | undefined;
    const reading = await loadConfig(dir, options, before, (files) => {
      found = files;
      return this.#complete(files, valid, options.requiredFiles);
    });
    if (found !== undefined && this.#missedAt.size > 0 && reading.config === undefined) {
      // Perhaps they contradict what is there, which counts more.
      const alone = mergeConfigFiles(found, options, reading.readProblems, before);
      if (alone.config !== undefined) {
        this.#missedAt = new Map();
        return { ...reading, ...alone, configFiles: found };
      }
    }
    // Until there is another valid config, the last one has all its files.
    if (reading.config !== undefined) this.#keepTimesOf(reading.configFiles);
    this.#tell(found ?? []);
    return reading;
  }

  #complete(
    found: readonly ConfigFile[],
    valid: readonly ConfigFile[],
    required: readonly string[],
  ): readonly ConfigFile[] {
    const now = Date.now();
    const present = new Set([...required, ...found.map(({ name }) => name)]);
    const gone = valid.filter(({ name }) => !present.has(name));
    // A clock that was set back must not make it longer.
    const since = ({ name }: ConfigFile) => Math.min(this.#missedAt.get(name) ?? now, now);
    this.#missedAt = new Map(gone.map((file) => [file.name, since(file)]));
    const counted = gone.filter((file) => now - since(file) < this.#graceMs);
    if (counted.length === 0) return found;
    return [...found, ...counted].toSorted((a, b) => byteOrder(a.name, b.name));
  }

  #keepTimesOf(files: readonly ConfigFile[]): void {
    const names = new Set(files.map(({ name }) => name));
    this.#missedAt = new Map([...this.#missedAt].filter(([name]) => names.has(name)));
  }

  #tell(found: readonly ConfigFile[]): void {
    for (const { name } of found)
      if (this.#told.has(name)) this.#log.info({ file: name }, `${printable(name)} is there again`);
    for (const [name, at] of this.endsAt)
      if (!this.#told.has(name) && at > Date.now())
        this.#log.warn(
          { file: name },
          `${printable(name)} is gone; what it said applies until ${new Date(at).toISOString()} (--vanished-grace): restore its ConfigMap or key or, if it is to go, put a file in its place that contains only {}`,
        );
    this.#told = new Set(this.#missedAt.keys());
  }
}
