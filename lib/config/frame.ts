import { printable } from '../text/escape.ts';
import { type FileOrigin, formatOrigin } from '../text/origin.ts';
import { formatProblem, type Problem } from './problem.ts';
import { lineStarts, type Source } from './source.ts';

const FRAME_WIDTH = 120;

/** The problem with the line it stands in and a caret below the column, for people. */
export function formatProblemFrame(problem: Problem, sources: readonly Source[]): string {
  return problemFramer(sources)(problem);
}

/** A function that formats many problems of the same sources, each as `formatProblemFrame` does. */
export function problemFramer(sources: readonly Source[]): (problem: Problem) => string {
  const texts = new Map(
    sources.map((source) => [keyOf(source.name, source.found?.file.name), source.found?.file ?? source]),
  );
  const frame = (at: FileOrigin) => frameOf(at, texts.get(keyOf(at.source, at.file)));
  return (problem) => {
    const { at, other } = problem;
    const atFrame = at?.kind === 'file' ? frame(at) : [];
    const otherFrame = other?.kind === 'file' ? [formatOrigin(other), ...frame(other)] : [];
    return [formatProblem(problem), ...atFrame, ...otherFrame].join('\n');
  };
}

/** What tells sources apart: two files may hold a source of the same name. No file has a NUL in its name. */
function keyOf(source: string, file = ''): string {
  return `${file}\0${source}`;
}

function frameOf(at: FileOrigin, file: Source | undefined): readonly string[] {
  const line = file && lineAt(file, at.line);
  if (line === undefined) return [];
  const start = Math.max(0, Math.min(at.column - 1, line.length) - FRAME_WIDTH / 2);
  const shown = line.slice(start, start + FRAME_WIDTH);
  const before = printable(shown.slice(0, at.column - 1 - start));
  const gutter = String(at.line);
  return [
    ` ${gutter} | ${printable(shown)}`,
    ` ${' '.repeat(gutter.length)} | ${' '.repeat(before.length)}^`,
  ];
}

function lineAt(file: Source, number: number): string | undefined {
  const starts = lineStarts(file);
  const start = starts[number - 1];
  return start === undefined ? undefined : file.text.slice(start, starts[number]).replace(/\r?\n$/, '');
}
