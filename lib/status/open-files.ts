import { readdirSync, readFileSync } from 'node:fs';

/** How many files the process may have open, sockets among them; NaN if none can be opened to read it. */
export function maxOpenFiles(): number {
  try {
    return Number(/^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]);
  } catch {
    return Number.NaN;
  }
}

/** How many files the process has open, without the directory that is read here. */
export function openFiles(): number {
  return readdirSync('/proc/self/fd').length - 1;
}
