import { problemFramer } from '../config/frame.ts';
import { formatPlace, gravestFirst, type Problem, type Severity } from '../config/problem.ts';
import type { Source } from '../config/source.ts';
import { type Colour, type Paint, painter } from '../text/colour.ts';
import { printable } from '../text/escape.ts';
import { counted } from '../text/words.ts';
import { type CheckReport, summarize } from './report.ts';

/**
 * The problems with their lines, the gravest first, and a line that counts them, for people.
 *
 * @param isColoured whether to use the colours of terminals (ECMA-48, Select Graphic Rendition)
 * @param isQuiet errors and warnings alone: empty if there are none
 */
export function textReport(report: CheckReport, isColoured: boolean, isQuiet = false): string {
  const { problems, sources, manifests = [], expected } = report;
  const files = [...sources, ...manifests, ...(expected ? [expected.file] : [])];
  const shown = problems.filter(({ severity }) => !isQuiet || severity !== 'info');
  const frames = gravestFirst(shown).map(problemPainter(files, painter(isColoured)));
  return [...frames, ...(isQuiet ? [] : [summaryLine(report)])].map((line) => `${line}\n`).join('');
}

/** A function that formats many problems of the same sources, each with its lines. */
export function problemPainter(sources: readonly Source[], paint: Paint): (problem: Problem) => string {
  const frame = problemFramer(sources);
  return (problem) => {
    const [message, remedy] = [printable(problem.message), printable(problem.remedy)];
    const lines = frame({ ...problem, message, remedy }).split('\n');
    return lines.map((line, index) => coloured(line, index, problem, paint)).join('\n');
  };
}

function summaryLine({ problems, sources, config, expected }: CheckReport): string {
  const { errors, warnings, infos } = summarize(problems);
  const failed = problems.filter(({ kind }) => kind === 'expectation').length;
  return [
    counted(sources.length, 'source'),
    counted(errors, 'error'),
    counted(warnings, 'warning'),
    counted(infos, 'info'),
    ...(expected && config
      ? [`${expected.count - failed} of ${counted(expected.count, 'expectation')} met`]
      : []),
  ].join(', ');
}

const COLOUR: Readonly<Record<Severity, Colour>> = { error: 'red', warning: 'yellow', info: 'cyan' };

/** A line of a frame: the problem itself, a line of a source, its caret, or the other position. */
function coloured(line: string, index: number, { severity, at }: Problem, paint: Paint): string {
  const inColour = (text: string) => paint(COLOUR[severity], text);
  if (index === 0) {
    const where = at === undefined ? [] : [formatPlace(at)];
    const rest = line.slice([...where, severity].join(': ').length);
    return `${[...where.map((text) => paint('bold', text)), inColour(severity)].join(': ')}${rest}`;
  }
  if (/^ +\| +\^$/.test(line)) return line.replace('^', inColour('^'));
  return /^ \d+ \| /.test(line) ? line : paint('bold', line);
}
