import { DataplaneError, type DataplaneFailure } from './error.ts';

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
