import { CONNECTIONS_KEEP, type VerdictChanges } from '../../lib/policy/changes.ts';
import { printable } from '../../lib/text/escape.ts';

/** What is said once behind all changes. */
export const CONNECTIONS_LINE = `${CONNECTIONS_KEEP.replace(/^c/, 'C')}.`;

export function verdictLines(what: string, { summary, lines }: VerdictChanges): readonly string[] {
  return [`${what}: ${summary}`, ...lines.map((line) => `  ${printable(line)}`)];
}
