import { counted } from '../text/words.ts';
import type { ConfigFile } from './config-file.ts';
import { MAX_PROBLEMS } from './limits.ts';
import type { Problem } from './problem.ts';

/** The config has errors, so nothing was changed. */
export class InvalidConfigError extends Error {
  readonly problems: readonly Problem[];
  /** The config files that the problems point into. */
  readonly configFiles: readonly ConfigFile[];
  /** What it means for the node, as a clause; undefined if nobody has looked. */
  consequence?: string;

  /** @param subject the name of what has the errors */
  constructor(problems: readonly Problem[], configFiles: readonly ConfigFile[] = [], subject = 'the config') {
    const errors = problems.filter(({ severity }) => severity === 'error');
    const atLeast = errors.length < MAX_PROBLEMS ? '' : 'at least '; // the others are not kept
    super(`${atLeast}${counted(errors.length, 'error')} in ${subject}`);
    this.problems = errors;
    this.configFiles = configFiles;
  }
}
