import { type Colour, type Paint, painter } from '../text/colour.ts';
import { printable } from '../text/escape.ts';
import { type FileOrigin, formatOrigin } from '../text/origin.ts';
import { type ConfigFile, lineStarts, type TextFile } from './config-file.ts';
import { locationText, type Problem, type Severity, sentence } from './problem.ts';
import { isBreak } from './yaml.ts';

const FRAME_WIDTH = 120;

const COLOUR: Readonly<Record<Severity, Colour>> = { error: 'red', warning: 'yellow', info: 'cyan' };

/**
 * A function that formats many problems of the same config files for people: each with the line it stands in and a caret
 * below the column.
 */
export function problemFramer(
  files: readonly ConfigFile[],
  paint: Paint = painter(false),
): (problem: Problem) => string {
  const texts = new Map(
    files.map((one) => [keyOf(one.name, one.embeddedIn?.file.name), one.embeddedIn?.file ?? one]),
  );
  return (problem) => {
    const { at, other, severity } = problem;
    const inColour = (text: string) => paint(COLOUR[severity], text);
    const frame = (at: FileOrigin) => frameOf(at, texts.get(keyOf(at.configFile, at.file)), inColour('^'));
    const where = at === undefined ? '' : `${paint('bold', locationText(at))}: `;
    return [
      `${where}${inColour(severity)}: ${printable(sentence(problem))}`,
      ...(at?.kind === 'file' ? frame(at) : []),
      ...(other?.kind === 'file' ? [paint('bold', formatOrigin(other)), ...frame(other)] : []),
    ].join('\n');
  };
}

/** What tells config files apart: two files may hold a config file of the same name. No file has a NUL in its name. */
function keyOf(configFile: string, file = ''): string {
  return `${file}\0${configFile}`;
}

function frameOf(at: FileOrigin, file: TextFile | undefined, caret: string): readonly string[] {
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
    ` ${' '.repeat(gutter.length)} | ${' '.repeat(before.length)}${caret}`,
  ];
}

/** Where the line begins and ends, without its line break. */
function lineAt(file: TextFile, row: number): { readonly start: number; readonly end: number } | undefined {
  const starts = lineStarts(file);
  const start = starts[row - 1];
  if (start === undefined) return undefined;
  let end = starts[row] ?? file.text.length;
  while (end > start && isBreak(file.text[end - 1])) end -= 1;
  return { start, end };
}
