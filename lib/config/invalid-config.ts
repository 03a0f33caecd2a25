import { counted } from '../text/words.ts';
import type { Problem } from './problem.ts';
import type { Source } from './source.ts';

/** The config is not to be applied; every error is in the list. Nothing was changed. */
export class InvalidConfigError extends Error {
  readonly problems: readonly Problem[];
  /** The texts that the problems point into. */
  readonly sources: readonly Source[];

  /** @param subject what has the errors, in words */
  constructor(problems: readonly Problem[], sources: readonly Source[] = [], subject = 'the config') {
    const errors = problems.filter(({ severity }) => severity === 'error');
    super(`${subject} has ${counted(errors.length, 'error')}`);
    this.problems = errors;
    this.sources = sources;
  }
}
