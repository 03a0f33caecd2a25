import type { Logger } from './log.ts';

/** What is logged when it becomes true, and not again as long as it stays true. */
export class Notices {
  readonly #log: Logger;
  #known: ReadonlySet<string> = new Set();

  constructor(log: Logger) {
    this.#log = log;
  }

  /**
   * Replaces what is true, and warns of what has become true.
   *
   * @param texts all that is true now
   * @param options `atEnd`: what to log if nothing is true any more
   */
  updateWarnings(texts: readonly string[], { atEnd }: { readonly atEnd?: string } = {}): void {
    if (atEnd !== undefined && texts.length === 0 && this.#known.size > 0) this.#log.info(atEnd);
    this.update(new Map(texts.map((text) => [text, () => this.#log.warn(text)])));
  }

  /**
   * Replaces what is true, and logs what has become true.
   *
   * @param found all that is true now: a key, which stays the same as long as it is true, and what logs it
   */
  update(found: ReadonlyMap<string, () => void>): void {
    for (const [key, tell] of found) if (!this.#known.has(key)) tell();
    this.#known = new Set(found.keys());
  }
}
