import type { FileOrigin } from './origin.ts';

/** One config file as text, known by its file name. */
export interface Source {
  readonly name: string;
  readonly text: string;
}

/** Turns offsets into a source's text into origins. */
export class Locator {
  readonly #source: Source;
  readonly #lineStarts: number[] = [0];

  constructor(source: Source) {
    this.#source = source;
    for (const { index } of source.text.matchAll(/\n/g)) this.#lineStarts.push(index + 1);
  }

  origin(offset: number): FileOrigin {
    let low = 0;
    let high = this.#lineStarts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#lineStarts[middle] ?? 0) <= offset) low = middle;
      else high = middle - 1;
    }
    const column = offset - (this.#lineStarts[low] ?? 0) + 1;
    return { kind: 'file', source: this.#source.name, line: low + 1, column };
  }
}
