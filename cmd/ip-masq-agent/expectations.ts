import type { ConfigOptions } from '../../lib/config/config.ts';
import { problemFramer } from '../../lib/config/frame.ts';
import type { Problem } from '../../lib/config/problem.ts';
import type { Source } from '../../lib/config/source.ts';
import { type Expectation, readExpectations } from '../../lib/inputs/expectations.ts';
import { readFile } from '../../lib/inputs/input.ts';
import { UsageError } from './exit.ts';

/** The file of --expect, and what it says. */
export interface ExpectFile {
  readonly file: Source;
  readonly expectations: readonly Expectation[];
}

/**
 * Reads the file of --expect.
 *
 * @throws {UsageError} with all that is wrong with the file
 */
export async function readExpectFile(path: string, options: ConfigOptions): Promise<ExpectFile> {
  const file = await readFile(path);
  const refuse = (problems: readonly Problem[], sources: readonly Source[]) =>
    new UsageError(
      ['the file of --expect cannot be used', ...problems.map(problemFramer(sources))].join('\n'),
    );
  if (!('text' in file)) throw refuse([file], []);
  const { expectations, problems } = readExpectations(file, options);
  if (problems.length > 0) throw refuse(problems, [file]);
  return { file, expectations };
}
