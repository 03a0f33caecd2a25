/**
 * - `busy`: somebody else holds the lock; trying again helps.
 * - `raced`: the kernel changed between observation and apply; observing again helps.
 * - `missing`: the tool is not installed, or too old.
 * - `unsupported`: the kernel has not been built with this kind of rules.
 * - `denied`: this process may not.
 * - `refused`: the kernel or the tool said no.
 */
export type DataplaneFailure = 'busy' | 'raced' | 'missing' | 'unsupported' | 'denied' | 'refused';

/** Why the kernel could not be read or changed; whatever failed left it as it was. */
export class DataplaneError extends Error {
  readonly failure: DataplaneFailure;
  readonly remedy: string;

  constructor(failure: DataplaneFailure, message: string, remedy: string) {
    super(message);
    this.failure = failure;
    this.remedy = remedy;
  }

  /** Whether the same may succeed a moment later. */
  get isRetryable(): boolean {
    return this.failure === 'busy' || this.failure === 'raced';
  }
}
