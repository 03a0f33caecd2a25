import type { Advice } from '../text/advice.ts';

/**
 * Kinds of failures of the kernel and its tools:
 *
 * - `busy`: another process holds the lock; trying again helps.
 * - `raced`: the kernel changed between observation and apply, or may have; observing again helps.
 * - `exhausted`: a tool cannot be started, or was killed, for a lack of processes, files or memory; trying again may help.
 * - `missing`: the tool is not installed, or too old.
 * - `unsupported`: the kernel is built without this kind of rules.
 * - `denied`: this process lacks a permission.
 * - `blocked`: what another program has made of a table keeps the agent from reading or writing its rules, or these from having
 *   their effect; the rules stay as they are, and the agent tries again.
 * - `refused`: the kernel or the tool refused for another reason.
 */
type DataplaneFailure =
  | 'busy'
  | 'raced'
  | 'exhausted'
  | 'missing'
  | 'unsupported'
  | 'denied'
  | 'blocked'
  | 'refused';

/** The kernel could not be read or changed. A failed transaction changes nothing; earlier ones of the same change stay. */
export class DataplaneError extends Error implements Advice {
  readonly failure: DataplaneFailure;
  readonly remedy: string;

  constructor(failure: DataplaneFailure, message: string, remedy: string) {
    super(message);
    this.failure = failure;
    this.remedy = remedy;
  }

  /** Whether there can be no rules, because the tool or the kernel's support is missing. */
  get meansNoRules(): boolean {
    return this.failure === 'missing' || this.failure === 'unsupported';
  }

  /** Whether the same operation may succeed a moment later. */
  get isRetryable(): boolean {
    return ['busy', 'raced', 'exhausted'].includes(this.failure);
  }
}

/** The meaning of a text that a tool prints when it fails. */
export interface Symptom {
  readonly pattern: RegExp;
  readonly failure: DataplaneFailure;
  readonly remedy: string;
}

/**
 * The failure of a tool as an error.
 *
 * @param symptoms of the tool, the more specific first
 * @param message what failed, in words
 */
export function toolError(symptoms: readonly Symptom[], stderr: string, message: string): DataplaneError {
  const symptom = symptoms.find(({ pattern }) => pattern.test(stderr));
  const remedy = symptom?.remedy ?? 'run the command by hand on the node to see more';
  return new DataplaneError(symptom?.failure ?? 'refused', message, remedy);
}

/** Empty output is not an empty chain or table: otherwise each sync would write it again, or take it for a foreign one. */
export function noListing(tool: string, what: string): DataplaneError {
  const remedy = 'run the command by hand on the node: it may be a wrapper that prints something else';
  return new DataplaneError('refused', `${tool} printed no listing of ${what}`, remedy);
}
