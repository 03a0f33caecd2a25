import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

interface Line {
  readonly text: string;
  /** When it came, as `performance.now()` tells. */
  readonly at: number;
}

/** What a program writes, line by line. */
export interface Lines {
  /** Takes the first line that has not been taken yet and is wanted, and all before it; waits for it. */
  next(wanted: (text: string) => boolean): Promise<Line>;
  /** Takes all that have come and have not been taken yet. */
  drain(): readonly Line[];
}

const PATIENCE_MS = 60_000;

/** @param what the lines tell of, for the error where none comes */
export function readLines(stream: Readable, what: string): Lines {
  let untaken: Line[] = [];
  let onLine = () => {};
  createInterface(stream).on('line', (text) => {
    untaken.push({ text, at: performance.now() });
    onLine();
  });
  const take = (wanted: (text: string) => boolean): Line | undefined => {
    const index = untaken.findIndex(({ text }) => wanted(text));
    return index < 0 ? undefined : untaken.splice(0, index + 1).at(-1);
  };
  return {
    next: (wanted) =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          onLine = () => {};
          reject(new Error(`waited ${PATIENCE_MS / 1000} seconds in vain for ${what}`));
        }, PATIENCE_MS);
        onLine = () => {
          const line = take(wanted);
          if (line === undefined) return;
          clearTimeout(timer);
          onLine = () => {};
          resolve(line);
        };
        onLine();
      }),
    drain: () => {
      const all = untaken;
      untaken = [];
      return all;
    },
  };
}
