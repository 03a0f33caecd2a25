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
