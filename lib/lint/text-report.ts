import { problemFramer } from '../config/frame.ts';
import { formatPlace, gravestFirst, type Problem, type Severity } from '../config/problem.ts';
import type { Source } from '../config/source.ts';
import { printable } from '../text/escape.ts';
import { counted } from '../text/words.ts';
import { type CheckReport, summarize } from './report.ts';

export interface TextOptions {
  /** Whether to use the colours of terminals (ECMA-48, Select Graphic Rendition). */
  readonly colour: boolean;
}

/** The problems with their lines, the gravest first, and a line that counts them, for people. */
export function textReport({ problems, sources, manifests = [] }: CheckReport, options: TextOptions): string {
  const frame = problemFramer([...sources, ...manifests]);
  const frames = gravestFirst(problems).flatMap((problem) => {
    const { message, remedy } = problem;
    const lines = frame({ ...problem, message: printable(message), remedy: printable(remedy) }).split('\n');
    return options.colour ? lines.map((line, index) => coloured(line, index, problem)) : lines;
  });
  return `${[...frames, summaryLine(problems, sources)].join('\n')}\n`;
}

function summaryLine(problems: readonly Problem[], sources: readonly Source[]): string {
  const { errors, warnings, infos } = summarize(problems);
  return [
    counted(sources.length, 'source'),
    counted(errors, 'error'),
    counted(warnings, 'warning'),
    counted(infos, 'info'),
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
