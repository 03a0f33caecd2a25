import { type Advice, adviceText } from '../text/advice.ts';
import { fileName } from '../text/escape.ts';
import { formatOrigin, type Origin } from '../text/origin.ts';
import { MAX_PROBLEMS } from './limits.ts';

/** How grave a problem is: an error keeps the config from being applied. */
export type Severity = 'error' | 'warning' | 'info';

/** Advice about what config files say. */
export interface Remark extends Advice {
  /** Where it is; absent if it concerns no single line or file. */
  readonly at?: Origin | FileOnly;
  /** The other of two origins that disagree. */
  readonly other?: Origin;
}

/** Something that an owner of a config file should know, and what to do about it. */
export interface Problem extends Remark {
  readonly severity: Severity;
  readonly kind: ProblemKind;
}

/** A file as a whole: unreadable, too large. */
export interface FileOnly {
  readonly kind: 'whole-file';
  /** How the file is called in messages; mostly the name of a config file. */
  readonly file: string;
}

/** What a kind of problem says about a config, and how grave it is unless warnings are errors. */
interface Kind {
  readonly severity: Severity;
  readonly meaning: string;
}

const error = (meaning: string): Kind => ({ severity: 'error', meaning });
const warning = (meaning: string): Kind => ({ severity: 'warning', meaning });
const info = (meaning: string): Kind => ({ severity: 'info', meaning });

/** Kinds of two origins that disagree, or say the same twice. */
export const CONFLICT_KINDS = {
  'both-lists': error(
    'A network is in two opposite lists, of destinations or of sources, in one config file or in two.',
  ),
  'resync-interval': error('Config files set different resync intervals.'),
  'address-range': error('A destination has two ranges in `masqueradeAddresses`.'),
  'link-local-flag': warning(
    'Config files disagree on whether link-local traffic is masqueraded, in `masqLinkLocal` or `masqLinkLocalIPv6`; true wins.',
  ),
  'link-local-entry': warning(
    'An entry contradicts the merged value of `masqLinkLocal` or `masqLinkLocalIPv6`. 169.254.0.0/16 or fe80::/10 in `masqueradeCIDRs` has no effect. An entry of `nonMasqueradeCIDRs` that contains such a range wins.',
  ),
  'opposite-nested': info(
    'An entry lies within a wider entry of the opposite list in another config file; the longest prefix decides.',
  ),
  duplicate: info('A network is listed twice in the same list.'),
  covered: info('An entry lies within a wider one of the same list.'),
};

/**
 * Kinds of what the checks find. `inside` in a name stands for addresses with the verdict `not_masqueraded`: they see the address
 * of the pod.
 */
const CHECK_KINDS = {
  'nothing-inside': warning('Every address of a family is masqueraded, except link-local.'),
  'everything-inside': info('No address of a family is masqueraded.'),
  assertion: error('The config breaks --must-not-masquerade or --must-masquerade.'),
  'taken-ports': warning('--to-ports holds ports that NodePorts or tunnels use.'),
  'drop-from-anywhere': error('With --invalid-packets=drop, masqueradeFromCIDRs lists no range of a family.'),
};

/** Every kind of problem, in an order that does not change from run to run. */
export const KINDS = {
  unreadable: error('A config file or the config directory cannot be read.'),
  'not-a-config-file': warning('A file is left out because of its name or type.'),
  'not-delivered': error('kubelet does not deliver a config file as the manifests describe it.'),
  'not-updated': warning('Running agents never get a change of a config file.'),
  arguments: error('An agent would refuse the arguments that a manifest has for it.'),
  'no-config-file': error('The paths to check hold no config file.'),
  'missing-config-file': error('A config file that --require-file names is not there.'),
  'same-name': error('Two config files have the same name, so one volume cannot hold both.'),
  encoding: error('A config file is not text in UTF-8.'),
  syntax: error('A config file is not one document of valid YAML or JSON.'),
  empty: warning('A config file sets nothing.'),
  shape: error('A value has the wrong type, or is out of range.'),
  'unknown-key': error('A config file sets a key that does not exist.'),
  'duplicate-key': error('A key is set twice in one config file.'),
  cidr: error('A text is not a network in its canonical notation.'),
  'ipv4-disabled': error('An IPv4 network is listed, but IPv4 is not enabled.'),
  'ipv6-disabled': error('An IPv6 network is listed, but IPv6 is not enabled.'),
  'other-family': error('A destination and its address are not both IPv4 or both IPv6.'),
  'unusable-range': error('A range in masqueradeAddresses holds no address for packets to leave with.'),
  'cidr-limit': error('One config file, or all of them together, list too many networks.'),
  duration: error('A text is not a duration, or is too short or too long.'),
  ...CONFLICT_KINDS,
  ...CHECK_KINDS,
  'more-problems': info('There are more problems than are reported.'),
};

export type ProblemKind = keyof typeof KINDS;

/** The kinds of conflicts and of problems from checks that are no errors, so that a valid config can have them; and how grave they are. */
export const KINDS_OF_VALID_CONFIG = Object.entries({ ...CONFLICT_KINDS, ...CHECK_KINDS }).filter(
  ([, { severity }]) => severity !== 'error',
);

export function problem(kind: ProblemKind, remark: Remark): Problem {
  return { ...remark, severity: KINDS[kind].severity, kind };
}

/** A problem of a file as a whole. */
export function fileProblem(kind: ProblemKind, file: string, message: string, remedy: string): Problem {
  return problem(kind, { at: { kind: 'whole-file', file }, message, remedy });
}

const SEVERITIES: readonly Severity[] = ['error', 'warning', 'info'];

/** Errors, then warnings, then infos; else in the order given. */
export function gravestFirst(problems: readonly Problem[]): readonly Problem[] {
  return problems.toSorted((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity));
}

/** Collects problems: of each severity the first, one more than is reported. */
export class ProblemList {
  readonly #kept: Record<Severity, Problem[]> = { error: [], warning: [], info: [] };
  readonly #strict: boolean;

  /** @param options `strict`: whether warnings count as errors */
  constructor({ strict }: { readonly strict: boolean }) {
    this.#strict = strict;
  }

  add(found: Problem): void {
    const severity = this.#strict && found.severity === 'warning' ? 'error' : found.severity;
    const kept = this.#kept[severity];
    if (kept.length <= MAX_PROBLEMS) kept.push({ ...found, severity });
  }

  /** Whether no error more can be reported. */
  get isFull(): boolean {
    return this.#kept.error.length > MAX_PROBLEMS;
  }

  /** The gravest first, else in the order in which they were added. If there are too many, the last problem says so. */
  reported(): readonly Problem[] {
    const all = Object.values(this.#kept).flat();
    if (all.length <= MAX_PROBLEMS) return all;
    const message = `there are more problems than these ${MAX_PROBLEMS}`;
    const remedy = 'resolve those that are reported, then check again';
    return [...all.slice(0, MAX_PROBLEMS), problem('more-problems', { message, remedy })];
  }
}

/** The problem in one line: where, how grave, what, what to do. */
export function formatProblem(problem: Problem): string {
  return formatRemark(problem, `${problem.severity}: `);
}

/** The remark in one line: where, a label, what, what to do. */
export function formatRemark(remark: Remark, label = ''): string {
  const where = remark.at === undefined ? '' : `${locationText(remark.at)}: `;
  return `${where}${label}${sentence(remark)}`;
}

/** What and what to do, without where. */
export function sentence({ message, other, remedy }: Remark): string {
  const theOther = other === undefined ? '' : ` (the other: ${formatOrigin(other)})`;
  return adviceText({ message: `${message}${theOther}`, remedy });
}

/** Where it is, as `formatOrigin` has it; the name alone of a file as a whole. */
export function locationText(at: Origin | FileOnly): string {
  return at.kind === 'whole-file' ? fileName(at.file) : formatOrigin(at);
}
