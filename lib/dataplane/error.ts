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

/** What a tool prints when it fails, and what that means. */
export interface Symptom {
  readonly pattern: RegExp;
  readonly failure: DataplaneFailure;
  readonly remedy: string;
}

/**
 * The failure of a tool as an error.
 *
 * @param symptoms of the tool, the more particular first
 * @param message what has failed, in words
 */
export function toolError(symptoms: readonly Symptom[], stderr: string, message: string): DataplaneError {
  const symptom = symptoms.find(({ pattern }) => pattern.test(stderr));
  const remedy = symptom?.remedy ?? 'run the command by hand on the node to see more';
  return new DataplaneError(symptom?.failure ?? 'refused', message, remedy);
}
