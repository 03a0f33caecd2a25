import { isDeepStrictEqual } from 'node:util';
import type { ConfigOptions, MergedConfig } from '../config/config.ts';
import { InvalidConfigError } from '../config/invalid-config.ts';
import { type LoadedConfig, loadConfig } from '../config/load.ts';
import { mayBeVolume } from '../config/read.ts';
import type { Logger } from '../log/log.ts';
import { logConfig } from './log-changes.ts';

/** The options for reading the sources. */
export interface SourcesOptions {
  readonly configDir: string;
  readonly config: ConfigOptions;
  /** Milliseconds between two readings, if no source says otherwise. */
  readonly resyncInterval: number;
}

/** A reading of the sources without errors. */
export interface ValidConfig extends LoadedConfig {
  readonly config: MergedConfig;
}

/** What the reader of the sources tells. */
export interface LoadObserver {
  /** The sources were read, and have no error. */
  onLoad(loaded: ValidConfig): void;
  /** The sources have errors. */
  onInvalidConfig(error: InvalidConfigError): void;
}

/** Reads the sources again and again, and tells what has changed. */
export class SourceReader {
  readonly #options: SourcesOptions;
  readonly #keepIf: (() => Promise<boolean>) | undefined;
  readonly #observer: LoadObserver;
  readonly #log: Logger;
  #last: LoadedConfig | undefined;
  #valid: ValidConfig | undefined;

  /** @param keepIf see `AgentOptions` */
  constructor(
    options: SourcesOptions,
    keepIf: (() => Promise<boolean>) | undefined,
    observer: LoadObserver,
    log: Logger,
  ) {
    this.#options = options;
    this.#keepIf = keepIf;
    this.#observer = observer;
    this.#log = log;
  }

  /** The last reading without errors; undefined if there is none yet. */
  get valid(): ValidConfig | undefined {
    return this.#valid;
  }

  /** Whether the sources were read before. */
  get hasRead(): boolean {
    return this.#last !== undefined;
  }

  /**
   * Reads the sources.
   *
   * @throws {InvalidConfigError} if they have errors, unless that is to be waited for
   */
  async read(): Promise<void> {
    const before = this.#last;
    const reading = await read(this.#options, before, this.#log);
    this.#last = reading;
    if (isValid(reading)) {
      if (before !== undefined && !isValid(before)) this.#log.info('the config is valid again');
      this.#valid = reading;
      return this.#observer.onLoad(reading);
    }
    const error = new InvalidConfigError(reading.problems, reading.sources);
    this.#observer.onInvalidConfig(error);
    const keeps = this.#keepIf !== undefined && (this.#valid !== undefined || (await this.#keepIf()));
    if (!keeps) throw error;
    if (reading !== before) this.#log.error(`${error.message}; ${whatIsKept(this.#valid)}`);
  }
}

function whatIsKept(loaded: ValidConfig | undefined): string {
  return loaded === undefined
    ? 'nothing on this node changes until the config is valid'
    : 'the last valid config stays in use until it is valid again';
}

/** Reads the sources. If the result has changed, logs the config and its problems. */
export async function read(
  { configDir, config: options }: SourcesOptions,
  last: LoadedConfig | undefined,
  log: Logger,
): Promise<LoadedConfig> {
  const loaded = await loadConfig(configDir, options, last);
  const { config, problems } = loaded;
  if (!isDeepStrictEqual([config, problems], [last?.config, last?.problems]))
    logConfig(log, loaded, mayBeVolume(configDir));
  return loaded;
}

/** Whether a reading has no error. */
export function isValid(loaded: LoadedConfig): loaded is ValidConfig {
  return loaded.config !== undefined;
}

/** Milliseconds until the sources are read again without a change. */
export function resyncInterval({ config }: ValidConfig, options: SourcesOptions): number {
  return config.resyncInterval?.value ?? options.resyncInterval;
}
