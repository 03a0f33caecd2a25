import { problemFramer } from '../config/frame.ts';
import { formatPlace, gravestFirst, type Problem, type Severity } from '../config/problem.ts';
import { printable } from '../text/escape.ts';
import { counted } from '../text/words.ts';
import { type CheckReport, summarize } from './report.ts';

export interface TextOptions {
  /** Whether to use the colours of terminals (ECMA-48, Select Graphic Rendition). */
  readonly colour: boolean;
}

/** The problems with their lines, the gravest first, and a line that counts them, for people. */
export function textReport(report: CheckReport, options: TextOptions): string {
  const { problems, sources, manifests = [], expected } = report;
  const frame = problemFramer([...sources, ...manifests, ...(expected ? [expected.file] : [])]);
  const frames = gravestFirst(problems).flatMap((problem) => {
    const { message, remedy } = problem;
    const lines = frame({ ...problem, message: printable(message), remedy: printable(remedy) }).split('\n');
    return options.colour ? lines.map((line, index) => coloured(line, index, problem)) : lines;
  });
  return `${[...frames, summaryLine(report)].join('\n')}\n`;
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

const RED = 31;
const YELLOW = 33;
const CYAN = 36;
const COLOUR: Readonly<Record<Severity, number>> = { error: RED, warning: YELLOW, info: CYAN };

/** A line of a frame: the problem itself, a line of a source, its caret, or the other position. */
function coloured(line: string, index: number, { severity, at }: Problem): string {
  if (index === 0) return colouredHead(line, severity, at);
  if (/^ +\| +\^$/.test(line)) return line.replace('^', inColour('^', severity));
  return /^ \d+ \| /.test(line) ? line : bold(line);
}

function colouredHead(line: string, severity: Severity, at: Problem['at']): string {
  if (at === undefined) return `${inColour(severity, severity)}${line.slice(severity.length)}`;
  const where = formatPlace(at);
  const rest = line.slice(`${where}: ${severity}`.length);
  return `${bold(where)}: ${inColour(severity, severity)}${rest}`;
}

function bold(text: string): string {
  return `\x1b[1m${text}\x1b[22m`;
}

function inColour(text: string, severity: Severity): string {
  return `\x1b[${COLOUR[severity]}m${text}\x1b[39m`;
}
