import { lineStarts } from './lines.ts';
import type { FileOrigin } from './origin.ts';

/** One config file as text, known by its file name. */
export interface Source {
  readonly name: string;
  readonly text: string;
  /** Where people find the text, where that is not a file of the source's name: in a manifest, say. */
  readonly found?: FoundIn;
}

/** The most that a source may hold; a ConfigMap holds no more either. */
export const MAX_BYTES = 1024 * 1024;

/** How standard input is called in messages. */
export const STDIN_NAME = 'standard input';

/** A file that holds the text of a source. */
export interface FoundIn {
  /** How the file is called in messages. */
  readonly file: string;
  readonly text: string;
  /** Where in the file the character stands that has this offset in the source. */
  offsetOf(offset: number): number;
}

/** Turns offsets into a source's text into origins. */
export class Locator {
  readonly #source: Source;
  readonly #lineStarts: readonly number[];

  constructor(source: Source) {
    this.#source = source;
    this.#lineStarts = lineStarts(source.found?.text ?? source.text);
  }

  /** Where people find the character at this offset of the source. */
  origin(sourceOffset: number): FileOrigin {
    const { name, found } = this.#source;
    const offset = found?.offsetOf(sourceOffset) ?? sourceOffset;
    let low = 0;
    let high = this.#lineStarts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#lineStarts[middle] ?? 0) <= offset) low = middle;
      else high = middle - 1;
    }
    const column = offset - (this.#lineStarts[low] ?? 0) + 1;
    const file = found === undefined ? {} : { file: found.file };
    return { kind: 'file', source: name, ...file, line: low + 1, column };
  }
}

/** The order in which sources are merged: that of the bytes of their names. */
export function byteOrder(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
