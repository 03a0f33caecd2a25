import type { Logger } from './log.ts';

/** What is logged when it becomes true, and not again as long as it stays true. */
export class Notices {
  readonly log: Logger;
  readonly #known = new Map<string, ReadonlySet<string>>();

  constructor(log: Logger) {
    this.log = log;
  }

  /**
   * Replaces what is true of a topic, and warns of what has become true.
   *
   * @param texts all that is true now
   * @param atEnd what to log if nothing is true any more
   */
  warn(topic: string, texts: readonly string[], atEnd?: string): void {
    this.update(topic, new Map(texts.map((text) => [text, () => this.log.warn(text)])), atEnd);
  }

  /** As `warn`, of what is an error. */
  error(topic: string, texts: readonly string[], atEnd?: string): void {
    this.update(topic, new Map(texts.map((text) => [text, () => this.log.error(text)])), atEnd);
  }

  /**
   * Replaces what is true of a topic, and logs what has become true.
   *
   * @param found all that is true now: a key, which stays the same as long as it is true, and what logs it
   */
  update(topic: string, found: ReadonlyMap<string, () => void>, atEnd?: string): void {
    const known = this.#known.get(topic);
    if (atEnd !== undefined && found.size === 0 && known?.size) this.log.info(atEnd);
    for (const [key, tell] of found) if (!known?.has(key)) tell();
    this.#known.set(topic, new Set(found.keys()));
  }
}
