import type { Examination } from '../../../lib/doctor/examine.ts';
import type { Paint } from '../../../lib/text/colour.ts';
import { printable } from '../../../lib/text/escape.ts';
import { counted, few } from '../../../lib/text/words.ts';

/** How many lines of evidence are shown for each finding. */
const MAX_EVIDENCE = 20;

/** The findings as text for people; the last line says what was looked at. */
export function examinationText({ findings, seen }: Examination, paint: Paint): string {
  const found = findings.flatMap(({ kind, family, message, evidence, remedy }) => [
    `${paint('yellow', kind)}${family === undefined ? '' : ` (${family})`}: ${printable(message)}`,
    ...few(evidence, MAX_EVIDENCE, printable).map((line) => `    ${line}`),
    `  ${paint('bold', 'to do')}: ${printable(remedy)}`,
    '',
  ]);
  const count =
    findings.length === 0
      ? paint('green', 'nothing found')
      : paint('yellow', counted(findings.length, 'finding'));
  return `${[...found, `${count}; looked at ${seen.map(printable).join('; ')}`].join('\n')}\n`;
}
