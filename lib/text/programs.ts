import { printable } from './escape.ts';

/** The most programs that one text names. */
const MOST = 3;

/** The programs of these names, as the subject of a sentence. Anybody can choose the name of a process. */
export function programs(names: readonly string[] = []): string {
  if (names.length === 0) return 'another program';
  const more = names.length > MOST ? ['another program'] : [];
  return [...names.slice(0, MOST).map(printable), ...more].join(' or ');
}
