import { type Examination, examine } from '../../lib/doctor/examine.ts';
import type { Paint } from '../../lib/text/colour.ts';
import { printable } from '../../lib/text/escape.ts';
import { counted, truncated } from '../../lib/text/words.ts';
import type { Args } from './command.ts';
import type { OUTPUT_FLAGS } from './command-flags.ts';
import { EXIT } from './exit.ts';
import { nodeAccess, podFinder, readerOptions } from './from-flags.ts';
import { printResult } from './print.ts';

export async function doctor({ flags }: Args<typeof OUTPUT_FLAGS>): Promise<number> {
  const examination = await examine({
    ...nodeAccess(flags),
    loading: readerOptions(flags),
    acceptForeign: flags['accept-foreign'],
    findPods: podFinder(flags),
  });
  const { findings } = examination;
  // An invalid config has one exit code in all commands.
  const isInvalid = findings.some(({ kind }) => kind === 'config-invalid' || kind === 'config-unreadable');
  const found = isInvalid ? EXIT.config : EXIT.different;
  const code = findings.length === 0 ? EXIT.ok : found;
  return printResult(flags.output, code, examination, (paint) => examinationText(examination, paint));
}

const MAX_EVIDENCE = 20;

function examinationText({ findings, read }: Examination, paint: Paint): string {
  const found = findings.flatMap(({ kind, family, message, evidence, remedy }) => [
    `${paint('yellow', kind)}${family === undefined ? '' : ` (${family})`}: ${printable(message)}`,
    ...truncated(evidence, MAX_EVIDENCE, printable).map((line) => `    ${line}`),
    `  ${paint('bold', 'to do')}: ${printable(remedy)}`,
    '',
  ]);
  const count =
    findings.length === 0
      ? paint('green', 'nothing found')
      : paint('yellow', counted(findings.length, 'finding'));
  return `${[...found, `${count}; read: ${read.map(printable).join('; ')}`].join('\n')}\n`;
}
