import { type Examination, examine } from '../../lib/doctor/examine.ts';
import { type Suspects, suspectDetails, suspectText } from '../../lib/foreign/suspects.ts';
import type { Paint } from '../../lib/text/colour.ts';
import { printable } from '../../lib/text/escape.ts';
import { counted, truncated } from '../../lib/text/words.ts';
import type { Args } from './command.ts';
import type { OUTPUT_FLAGS } from './command-flags.ts';
import { EXIT } from './exit.ts';
import { suspectJson } from './explain-json.ts';
import { nodeAccess, podFinder, readerOptions } from './from-flags.ts';
import { printResult } from './print.ts';

export async function doctor({ flags }: Args<typeof OUTPUT_FLAGS>): Promise<number> {
  const examination = await examine({
    ...nodeAccess(flags),
    loading: readerOptions(flags),
    accepted: flags['accept-masqueraded'],
    findPods: podFinder(flags),
  });
  const { findings, read, suspects } = examination;
  // An invalid config has one exit code in all commands.
  const isInvalid = findings.some(({ kind }) => kind === 'config-invalid');
  const found = isInvalid ? EXIT.config : EXIT.different;
  // Many clusters mean it: all their destinations have routes back to the pods.
  const code = findings.every(({ kind }) => kind === 'everything-inside') ? EXIT.ok : found;
  const { postrouting, unread } = suspects;
  const json = { findings, read, suspects: suspects.suspects.map(suspectJson), postrouting, unread };
  return printResult(flags.output, code, json, (paint) => examinationText(examination, paint));
}

const MAX_EVIDENCE = 20;

function examinationText({ findings, read, suspects }: Examination, paint: Paint): string {
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
  return `${[...found, ...natLines(suspects), `${count}; read: ${read.map(printable).join('; ')}`].join('\n')}\n`;
}

/** What else does NAT on the node: named, and not judged. */
function natLines({ suspects, postrouting, unread }: Suspects): readonly string[] {
  const named = suspects.flatMap((one) => [
    suspectText(one),
    ...suspectDetails(one).map((line) => `  ${line}`),
  ]);
  const lines = [...named, ...unread.map((what) => `not read: ${what}`), ...postrouting].map(
    (line) => `    ${printable(line)}`,
  );
  return lines.length === 0
    ? []
    : ['NAT of other programs, in the order in which packets meet it:', ...lines, ''];
}
