import { isDeepStrictEqual } from 'node:util';
import type { ConfigOptions, MergedConfig } from '../config/config.ts';
import { InvalidConfigError } from '../config/invalid-config.ts';
import { type LoadedConfig, loadConfig } from '../config/load.ts';
import type { Logger } from '../log/log.ts';
import { logConfig } from './report.ts';
import { Trigger, type Wake } from './trigger.ts';
import { watchDirectory } from './watch.ts';

export interface SourcesOptions {
  readonly configDir: string;
  readonly config: ConfigOptions;
  /** Milliseconds between two readings, where no source says otherwise. */
  readonly resyncInterval: number;
}

/** The sources of a config directory over time: read again at each change, and at every resync. */
export class Sources {
  readonly #options: SourcesOptions;
  readonly #log: Logger;
  readonly #onLoad: (loaded: LoadedConfig) => void;
  readonly #trigger = new Trigger();
  #loaded: LoadedConfig | undefined;
  #interval: number;

  /** @param onLoad gets every reading, valid or not; the same object again where nothing has changed */
  constructor(options: SourcesOptions, log: Logger, onLoad: (loaded: LoadedConfig) => void = () => {}) {
    this.#options = options;
    this.#log = log;
    this.#onLoad = onLoad;
    this.#interval = options.resyncInterval;
  }

  /**
   * What the sources say now; the same object as long as they do not change. Logs it once for each change of what they
   * say, or of what is wrong with it.
   *
   * @throws {InvalidConfigError}
   */
  async load(): Promise<MergedConfig> {
    const loaded = await loadConfig(this.#options.configDir, this.#options.config, this.#loaded);
    if (!saysTheSame(loaded, this.#loaded)) logConfig(this.#log, loaded);
    this.#loaded = loaded;
    this.#onLoad(loaded);
    if (loaded.config === undefined) throw new InvalidConfigError(loaded.problems, loaded.sources);
    this.#interval = loaded.config.resyncInterval?.value ?? this.#options.resyncInterval;
    return loaded.config;
  }

  /** Reacts at once, and then to every change and every resync, until the signal aborts or a reaction fails. */
  async follow(react: (wake: Wake) => Promise<void>, signal: AbortSignal): Promise<void> {
    this.#watch(signal);
    this.#trigger.fire('start');
    for (;;) {
      const wake = await this.#trigger.next(this.#interval, signal);
      if (wake === undefined) return;
      await react(wake);
    }
  }

  /** Milliseconds until the next reading, if nothing happens before. */
  get interval(): number {
    return this.#interval;
  }

  /** Makes a follower react now. */
  reload(): void {
    this.#trigger.fire('signal');
  }

  #watch(signal: AbortSignal): void {
    const events = {
      onChange: () => this.#trigger.fire('change'),
      onLost: (error: Error) =>
        this.#log.warn(
          `cannot watch the config directory, changes wait for the resync: ${error.message} (ENOSPC, EMFILE: raise fs.inotify.max_user_watches or max_user_instances)`,
        ),
      isProjected: () => this.#loaded?.projected ?? false,
    };
    watchDirectory(this.#options.configDir, events, signal);
  }
}

function saysTheSame(loaded: LoadedConfig, last: LoadedConfig | undefined): boolean {
  return (
    loaded === last || isDeepStrictEqual([loaded.config, loaded.problems], [last?.config, last?.problems])
  );
}
