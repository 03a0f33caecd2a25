import { isDeepStrictEqual } from 'node:util';
import type { LastValid } from '../agent/load.ts';
import type { ConfigFile } from '../config/config-file.ts';
import type { Logger } from '../log/log.ts';
import { Notices } from '../log/notices.ts';
import { ExhaustedError, SystemError } from '../text/error.ts';
import { readLastValid } from './state-dir.ts';

/**
 * The last valid config, in a directory that outlives the process and a reboot. What cannot be read or written is told, and
 * does not stop the agent.
 */
export class LastValidStore {
  readonly #dir: string;
  readonly #node: string;
  readonly #limit: number;
  readonly #log: Logger;
  readonly #notices: Notices;
  #isRead = false;
  /** What the directory holds; undefined if nothing that can be used. */
  #stored: LastValid | undefined;

  /**
   * @param node what tells this node from others
   * @param limit how many bytes all config files together may have
   */
  constructor(dir: string, node: string, limit: number, log: Logger) {
    this.#dir = dir;
    this.#node = node;
    this.#limit = limit;
    this.#log = log;
    this.#notices = new Notices(log);
  }

  /**
   * Keeps a config for the next run, unless it is there already.
   *
   * @returns whether it is there now
   */
  async keep(configFiles: readonly ConfigFile[]): Promise<boolean> {
    if (!this.#isRead) await this.read();
    const texts = configFiles.map(({ name, text }) => ({ name, text }));
    const isSameConfig = isDeepStrictEqual(texts, this.#stored?.configFiles);
    const since = (isSameConfig && this.#stored?.since) || new Date().toISOString();
    const lastValid = { configFiles: texts, since };
    if (isDeepStrictEqual(lastValid, this.#stored)) return true;
    try {
      // Most starts write nothing.
      const { writeLastValid } = await import('./write-state.ts');
      await writeLastValid(this.#dir, this.#node, lastValid);
      this.#stored = lastValid;
      this.#notices.updateWarnings([]);
      return true;
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      this.#notices.updateWarnings([`${error.message}: a restart with an invalid config has no other one`]);
      return false;
    }
  }

  /**
   * The config of an earlier run; undefined if there is none that can be used.
   *
   * @throws {ExhaustedError}
   */
  async read(): Promise<LastValid | undefined> {
    this.#isRead = true;
    try {
      this.#stored = await readLastValid(this.#dir, this.#node, this.#limit);
      return this.#stored;
    } catch (error) {
      if (!(error instanceof SystemError) || error instanceof ExhaustedError) throw error;
      this.#log.warn(error.message);
      return undefined;
    }
  }
}
