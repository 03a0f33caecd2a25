import { problemFramer } from '../config/frame.ts';
import { gravestFirst } from '../config/problem.ts';
import { painter } from '../text/colour.ts';
import { counted } from '../text/words.ts';
import { type CheckReport, summarize } from './report.ts';

/**
 * The problems with their lines, the gravest first, and a line that counts them, for people.
 *
 * @param isColoured whether to use the colours of terminals (ECMA-48, Select Graphic Rendition)
 */
export function textReport(report: CheckReport, isColoured: boolean): string {
  const { problems, configFiles, manifests = [] } = report;
  const files = [...configFiles, ...manifests];
  const frames = gravestFirst(problems).map(problemFramer(files, painter(isColoured)));
  return [...frames, summaryLine(report)].map((line) => `${line}\n`).join('');
}

function summaryLine({ problems, configFiles }: CheckReport): string {
  const { errors, warnings, infos } = summarize(problems);
  return [
    counted(configFiles.length, 'config file'),
    counted(errors, 'error'),
    counted(warnings, 'warning'),
    counted(infos, 'info'),
  ].join(', ');
}
