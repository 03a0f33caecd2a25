import { printable } from '../text/escape.ts';
import { formatOrigin, type Origin } from '../text/origin.ts';

/** How grave a problem is: an error keeps the config from being applied. */
export type Severity = 'error' | 'warning' | 'info';

/** Something that an owner of a source should know, and what to do about it. */
export interface Problem {
  readonly severity: Severity;
  readonly kind: ProblemKind;
  /** One sentence, without position and without control characters. */
  readonly message: string;
  readonly remedy: string;
  /** Where it is; absent if it concerns the config directory as a whole. */
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

/** What a kind of problem says about a config, and how grave it is unless warnings are errors. */
interface Kind {
  readonly severity: Severity;
  readonly meaning: string;
}

/** Kinds of two origins that disagree, or say the same twice. */
export const CONFLICT_KINDS = {
  'both-lists': { severity: 'error', meaning: 'A network is in both lists.' },
  'resync-interval': { severity: 'error', meaning: 'Sources set different resync intervals.' },
  'link-local-flag': {
    severity: 'warning',
    meaning: 'Sources disagree on whether link-local traffic is masqueraded.',
  },
  'link-local-entry': {
    severity: 'warning',
    meaning: 'A list says the opposite of the setting for link-local traffic.',
  },
  'opposite-nested': {
    severity: 'info',
    meaning: 'An entry is an exception to an entry of another source.',
  },
  duplicate: { severity: 'info', meaning: 'A network is listed twice in the same list.' },
  covered: {
    severity: 'info',
    meaning: 'An entry changes nothing, because a wider entry of the same list contains it.',
  },
} as const satisfies Readonly<Record<string, Kind>>;

/** Every kind of problem, in an order that does not change from run to run. */
export const KINDS = {
  unreadable: { severity: 'error', meaning: 'A source or the config directory cannot be read.' },
  'not-a-source': { severity: 'warning', meaning: 'A file is left out because of its name.' },
  'no-source': { severity: 'error', meaning: 'The paths to check hold no source.' },
  'same-name': {
    severity: 'error',
    meaning: 'Two sources have the same name, so one volume cannot hold both.',
  },
  encoding: { severity: 'error', meaning: 'A source is not text in UTF-8.' },
  syntax: { severity: 'error', meaning: 'A source is not one document of valid YAML or JSON.' },
  empty: { severity: 'warning', meaning: 'A source sets nothing.' },
  shape: {
    severity: 'error',
    meaning: 'A value has the wrong type, or is out of range.',
  },
  'unknown-key': { severity: 'error', meaning: 'A config does not have such a key.' },
  'duplicate-key': { severity: 'error', meaning: 'A key is set twice in one source.' },
  cidr: { severity: 'error', meaning: 'A text is not a network in its canonical notation.' },
  'ipv6-disabled': { severity: 'error', meaning: 'An IPv6 network is listed, but IPv6 is not enabled.' },
  'cidr-limit': { severity: 'error', meaning: 'A source lists more networks than it may.' },
  duration: { severity: 'error', meaning: 'A text is not a duration, or is too short or too long.' },
  ...CONFLICT_KINDS,
} as const satisfies Readonly<Record<string, Kind>>;

export type ProblemKind = keyof typeof KINDS;
export type ConflictKind = keyof typeof CONFLICT_KINDS;

/** A problem of that kind, as grave as the kind is. */
export function problem(kind: ProblemKind, particulars: Omit<Problem, 'kind' | 'severity'>): Problem {
  return { severity: KINDS[kind].severity, kind, ...particulars };
}

/** The problem if warnings count as errors. */
export function strictly(found: Problem): Problem {
  return found.severity === 'warning' ? { ...found, severity: 'error' } : found;
}

const RANK: Readonly<Record<Severity, number>> = { error: 0, warning: 1, info: 2 };

/** Errors, then warnings, then infos; else in the order given. */
export function gravestFirst(problems: readonly Problem[]): readonly Problem[] {
  return problems.toSorted((a, b) => RANK[a.severity] - RANK[b.severity]);
}

/** The problem in one line: where, what, what to do. */
export function formatProblem(problem: Problem): string {
  const where = problem.at === undefined ? '' : `${formatPlace(problem.at)}: `;
  return `${where}${problem.severity}: ${sentence(problem)}`;
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
