import { printable } from '../text/escape.ts';
import { lineStarts } from './lines.ts';
import { type FileOrigin, formatOrigin, type Origin } from './origin.ts';
import type { Source } from './source.ts';

/** How grave a problem is: an error keeps the config from being applied. */
export type Severity = 'error' | 'warning' | 'info';

/** Something that an owner of a source should know, and what to do about it. */
export interface Problem {
  readonly severity: Severity;
  readonly kind: ProblemKind;
  /** One sentence, without position and without control characters. */
  readonly message: string;
  readonly remedy: string;
  /** Where it is; absent where it concerns the config directory as a whole. */
  readonly at?: Origin | FileOnly;
  /** The other of two origins that disagree. */
  readonly other?: Origin;
}

/** A file as a whole: unreadable, too large. */
export interface FileOnly {
  readonly kind: 'whole-file';
  /** How the file is called in messages; mostly the name of a source. */
  readonly source: string;
}

export type ProblemKind =
  | 'unreadable'
  | 'not-a-source'
  | 'no-source'
  | 'same-name'
  | 'encoding'
  | 'syntax'
  | 'empty'
  | 'shape'
  | 'unknown-key'
  | 'duplicate-key'
  | 'cidr'
  | 'ipv6-disabled'
  | 'cidr-limit'
  | 'duration'
  | ConflictKind;

/** Two origins that disagree, or say the same twice. */
export interface Conflict extends Problem {
  readonly kind: ConflictKind;
  readonly at: Origin;
}

export const CONFLICT_KINDS = [
  'both-lists',
  'resync-interval',
  'link-local-flag',
  'link-local-entry',
  'opposite-nested',
  'duplicate',
  'covered',
] as const;

export type ConflictKind = (typeof CONFLICT_KINDS)[number];

const RANK: Readonly<Record<Severity, number>> = { error: 0, warning: 1, info: 2 };

/** Errors, then warnings, then infos; else in the order given. */
export function gravestFirst<One extends Problem>(problems: readonly One[]): readonly One[] {
  return problems.toSorted((a, b) => RANK[a.severity] - RANK[b.severity]);
}

/** The problem in one line: where, what, what to do. */
export function formatProblem(problem: Problem): string {
  const where = problem.at === undefined ? '' : `${formatPlace(problem.at)}: `;
  return `${where}${problem.severity}: ${sentence(problem)}`;
}

/** The problem with the line it stands in and a caret below the column, for people. */
export function formatProblemFrame(problem: Problem, sources: readonly Source[]): string {
  const { at, other } = problem;
  const atFrame = at?.kind === 'file' ? frame(at, sources) : [];
  const otherFrame = other?.kind === 'file' ? [formatOrigin(other), ...frame(other, sources)] : [];
  return [formatProblem(problem), ...atFrame, ...otherFrame].join('\n');
}

/** What and what to do, without where. */
export function sentence({ message, other, remedy }: Problem): string {
  const theOther = other === undefined ? '' : ` (the other: ${formatOrigin(other)})`;
  return `${message}${theOther}; ${remedy}`;
}

/** Where it is, as `formatOrigin` has it; the name alone of a file as a whole. */
export function formatPlace(at: Origin | FileOnly): string {
  return at.kind === 'whole-file' ? printable(at.source) : formatOrigin(at);
}

const FRAME_WIDTH = 120;

function frame(at: FileOrigin, sources: readonly Source[]): string[] {
  const source = sources.find(({ name, found }) => name === at.source && found?.file === at.file);
  const line = source && lineAt(source.found?.text ?? source.text, at.line);
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

function lineAt(text: string, number: number): string | undefined {
  const starts = lineStarts(text);
  const start = starts[number - 1];
  return start === undefined ? undefined : text.slice(start, starts[number]).replace(/\r?\n$/, '');
}
