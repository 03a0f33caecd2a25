import { counted } from '../text/words.ts';
import { MAX_PROBLEMS } from './limits.ts';
import type { Problem } from './problem.ts';
import type { Source } from './source.ts';

/** The config has errors, so nothing was changed. */
export class InvalidConfigError extends Error {
  readonly problems: readonly Problem[];
  /** The sources that the problems point into. */
  readonly sources: readonly Source[];

  /** @param subject the name of what has the errors */
  constructor(problems: readonly Problem[], sources: readonly Source[] = [], subject = 'the config') {
    const errors = problems.filter(({ severity }) => severity === 'error');
    const atLeast = errors.length < MAX_PROBLEMS ? '' : 'at least '; // the others are not kept
    super(`${atLeast}${counted(errors.length, 'error')} in ${subject}`);
    this.problems = errors;
    this.sources = sources;
  }
}
