import { printable } from '../../../lib/text/escape.ts';
import { counted } from '../../../lib/text/words.ts';
import type { Examination } from './examine.ts';

/** How many lines of evidence are shown for each finding. */
const MAX_EVIDENCE = 20;

/** The findings as text for people. */
export function examinationText({ findings, seen }: Examination): string {
  const found = findings.flatMap(({ kind, family, message, evidence, remedy }) => {
    const shown = evidence.slice(0, MAX_EVIDENCE).map((line) => `    ${line}`);
    const more = evidence.length - shown.length;
    return [
      `${kind}${family === undefined ? '' : ` (${family})`}: ${message}`,
      ...shown,
      ...(more > 0 ? [`    … and ${more} more`] : []),
      `  to do: ${remedy}`,
      '',
    ];
  });
  const count = findings.length === 0 ? 'nothing found' : counted(findings.length, 'finding');
  const lines = [...found, ...seen.map((what) => `looked at ${what}`), count];
  return lines.map((line) => `${printable(line)}\n`).join('');
}
