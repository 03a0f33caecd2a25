import type { ConfigOptions } from '../config/config.ts';
import { byteOrder, type ConfigFile } from '../config/config-file.ts';
import { type LoadedConfig, loadConfig } from '../config/load.ts';
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

  /** When each file was first missed, as Date.now() says it. */
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
    const complete = (found: readonly ConfigFile[]) => this.#complete(found, valid, options.requiredFiles);
    const reading = await loadConfig(dir, options, before, complete);
    if (this.#missedAt.size > 0 && reading.config === undefined) {
      // Perhaps they contradict what is there, which counts more.
      const alone = await loadConfig(dir, options, before, (found) => found);
      if (alone.config !== undefined) {
        this.#missedAt = new Map();
        return alone;
      }
    }
    this.#tell();
    return reading;
  }

  #complete(
    found: readonly ConfigFile[],
    valid: readonly ConfigFile[],
    required: readonly string[],
  ): readonly ConfigFile[] {
    const now = Date.now();
    const missedAt = new Map<string, number>();
    for (const { name } of valid) {
      // A clock that was set back must not make it longer.
      const at = Math.min(this.#missedAt.get(name) ?? now, now);
      const isGone = !required.includes(name) && found.every((file) => file.name !== name);
      if (isGone && now - at < this.#graceMs) missedAt.set(name, at);
    }
    this.#missedAt = missedAt;
    if (missedAt.size === 0) return found;
    return [...found, ...valid.filter(({ name }) => missedAt.has(name))].toSorted((a, b) =>
      byteOrder(a.name, b.name),
    );
  }

  #tell(): void {
    for (const [name, at] of this.endsAt)
      if (!this.#told.has(name))
        this.#log.warn(
          { file: name },
          `${printable(name)} is gone; what it said applies until ${new Date(at).toISOString()} (--vanished-grace): restore its ConfigMap or key or, if it is to go, put a file in its place that contains only {}`,
        );
    this.#told = new Set(this.#missedAt.keys());
  }
}
