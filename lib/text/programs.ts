import { printable } from './escape.ts';
import { truncated } from './words.ts';

/** The most programs that one text names. */
const MOST = 3;

/** The programs of these names, as the subject of a sentence. Anybody can choose the name of a process. */
export function programs(names: readonly string[] = []): string {
  if (names.length === 0) return 'another program';
  return truncated(names, MOST, printable, () => 'another program').join(' or ');
}
