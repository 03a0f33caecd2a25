import { printable } from '../text/escape.ts';
import { type FileOrigin, formatOrigin } from '../text/origin.ts';
import { formatProblem, type Problem } from './problem.ts';
import { lineStarts, type Source } from './source.ts';

const FRAME_WIDTH = 120;

/**
 * A function that formats many problems of the same sources for people: each with the line it stands in and a caret below
 * the column.
 */
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
  if (file === undefined || line === undefined) return [];
  const length = line.end - line.start;
  const start = Math.max(0, Math.min(at.column - 1, length) - FRAME_WIDTH / 2);
  // Not the whole line: it may be as long as the file, and hold every problem.
  const shown = file.text.slice(line.start + start, Math.min(line.end, line.start + start + FRAME_WIDTH));
  const before = printable(shown.slice(0, at.column - 1 - start));
  const gutter = String(at.line);
  return [
    ` ${gutter} | ${printable(shown)}`,
    ` ${' '.repeat(gutter.length)} | ${' '.repeat(before.length)}^`,
  ];
}

/** Where the line begins and ends, without its line break. */
function lineAt(file: Source, number: number): { readonly start: number; readonly end: number } | undefined {
  const { text } = file;
  const starts = lineStarts(file);
  const start = starts[number - 1];
  if (start === undefined) return undefined;
  const next = starts[number];
  if (next === undefined) return { start, end: text.length };
  return { start, end: text[next - 2] === '\r' && next - 2 >= start ? next - 2 : next - 1 };
}
