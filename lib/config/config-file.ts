import { isUtf8 } from 'node:buffer';
import type { FileOrigin } from '../text/origin.ts';
import { partitionPoint } from '../text/partition-point.ts';
import { type Problem, type ProblemKind, problem } from './problem.ts';

/** A file as text: a config file, or one that holds config files. */
export interface TextFile {
  /** What messages call it. */
  readonly name: string;
  readonly text: string;
}

/** One config file as text, known by its file name. */
export interface ConfigFile extends TextFile {
  /** The manifest or other file in which people find the text; undefined if that is a file of the config file's name. */
  readonly embeddedIn?: Embedding;
}

/** Where another file, such as the manifest of a ConfigMap, holds the text of a config file. */
export interface Embedding {
  /** The whole file. */
  readonly file: TextFile;
  readonly line: number;
  readonly column: number;
  /**
   * Whether each line of the text is a line of the file, and all begin in the same column. If not, everything in the
   * text is said to be where the text begins.
   */
  readonly lineByLine: boolean;
}

export const STDIN_NAME = 'standard input';

const CONFIG_FILE_PREFIX = 'ip-masq-';

/** How the names of config files and of near misses begin: ip-masq-agent-v2 reads all of them. */
export const CANDIDATE_PREFIX = 'ip-masq';

/** For fast-glob: the names of config files, and of near misses. */
export const CANDIDATE_PATTERNS = [`${CONFIG_FILE_PREFIX}*`, `${CANDIDATE_PREFIX}!(-*)`];

/** NAME_MAX of Linux, in bytes. */
const MAX_NAME_BYTES = 255;

export function isConfigFileName(name: string): boolean {
  return name.startsWith(CONFIG_FILE_PREFIX);
}

/** Whether a file can have that name and be a config file. */
export function isPossibleConfigFileName(name: string): boolean {
  return isConfigFileName(name) && !/[/\0]/.test(name) && Buffer.byteLength(name) <= MAX_NAME_BYTES;
}

/** Whether a file of that name may be meant as a config file. */
export function isNearMiss(name: string): boolean {
  return name.startsWith(CANDIDATE_PREFIX) && !isConfigFileName(name);
}

/** What is wrong with a near miss: the end of a sentence. */
export const nearMissText = `is not read: the name of a config file begins with ${CONFIG_FILE_PREFIX}`;

/**
 * What is said of a config file that is not there any more.
 *
 * @param until undefined while no valid config can take the place of the last one
 */
export function vanishedText(file: string, until: string | undefined): string {
  return `${file} is gone; what it said applies${until === undefined ? '' : ` until ${until}`}`;
}

/** The order in which config files are merged: that of the bytes of their names in UTF-8, which is that of code points. */
export function byteOrder(a: string, b: string): number {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at += 1;
  return (a.codePointAt(at) ?? -1) - (b.codePointAt(at) ?? -1);
}

/** The bytes of a file as text; a problem if they are not UTF-8 text. A byte order mark is dropped. */
export function decodeFile(name: string, bytes: Buffer): ConfigFile | Problem {
  const failure = (text: string, offset: number, message: string, remedy: string): Problem =>
    problemIn({ name, text }, 'encoding', { offset }, message, remedy);
  if (!isUtf8(bytes)) {
    const text = withoutMark(bytes.toString('utf8'));
    return failure(text, text.indexOf('\uFFFD'), 'has a byte that is not UTF-8', 'save the file as UTF-8');
  }
  const text = withoutMark(bytes.toString('utf8'));
  const nul = text.indexOf('\0');
  if (nul !== -1) return failure(text, nul, 'has a NUL byte', 'save the file as plain text');
  return { name, text };
}

function withoutMark(text: string): string {
  return text.replace(/^\uFEFF/, '');
}

/** A problem with what stands at an offset of the config file. */
export function problemIn(
  configFile: ConfigFile,
  kind: ProblemKind,
  { offset }: { readonly offset: number },
  message: string,
  remedy: string,
  other?: { readonly offset: number },
): Problem {
  const theOther = other && { other: originIn(configFile, other.offset) };
  return problem(kind, { at: originIn(configFile, offset), ...theOther, message, remedy });
}

/** Where people find the character at this offset of the config file. */
export function originIn(configFile: ConfigFile, offset: number): FileOrigin {
  const { name, embeddedIn } = configFile;
  const starts = lineStarts(configFile);
  // In the config file's own text, both from 1.
  const line = partitionPoint(starts, (start) => start <= offset);
  const column = offset - (starts[line - 1] ?? 0) + 1;
  if (embeddedIn === undefined) return { kind: 'file', configFile: name, line, column };
  const { file, lineByLine } = embeddedIn;
  const at = lineByLine
    ? { line: embeddedIn.line + line - 1, column: embeddedIn.column + column - 1 }
    : { line: embeddedIn.line, column: embeddedIn.column };
  return { kind: 'file', configFile: name, file: file.name, ...at };
}

/** What ends a line, here and for the YAML parser (YAML 1.2, 5.4): a lone carriage return too. */
export const LINE_BREAK = /\r\n?|\n/;

const known = new WeakMap<TextFile, Uint32Array>();

/** Where the lines of the file's own text begin. Found out once, however many problems point there. */
export function lineStarts(file: TextFile): Uint32Array {
  const before = known.get(file);
  if (before !== undefined) return before;
  const breaks = new RegExp(LINE_BREAK, 'g');
  let count = 1;
  while (breaks.test(file.text)) count += 1;
  const starts = new Uint32Array(count); // a list that grows takes five times the memory
  for (let line = 1; breaks.test(file.text); line += 1) starts[line] = breaks.lastIndex;
  known.set(file, starts);
  return starts;
}
