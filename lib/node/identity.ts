import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';

/** Numbers that no other machine has, as far as the firmware tells them: a clone of a disk has the same machine-id(5). */
const NUMBERS = ['/sys/class/dmi/id/product_uuid', '/sys/class/dmi/id/product_serial', '/etc/machine-id'];

/** What tells this node from others: its name, and a number of the machine if there is one. */
export function nodeIdentity(): string {
  return [hostname(), NUMBERS.map(firstLine).find(Boolean)].join(' ').trim();
}

function firstLine(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return '';
  }
}
