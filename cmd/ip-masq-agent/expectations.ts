import { formatRange, rangeOf } from '../../lib/cidr/ranges.ts';
import type { ConfigOptions, MergedConfig } from '../../lib/config/config.ts';
import { problemFramer } from '../../lib/config/frame.ts';
import { type Problem, problem } from '../../lib/config/problem.ts';
import type { Source } from '../../lib/config/source.ts';
import { type Expectation, readExpectations } from '../../lib/lint/expectations.ts';
import { readFile } from '../../lib/lint/input.ts';
import { flatten } from '../../lib/policy/flatten.ts';
import { compilePolicy, VERDICT_TEXT } from '../../lib/policy/policy.ts';
import { breaches, describeBreaches, placeOf } from '../../lib/policy/promises.ts';
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

/** A problem for each expectation that the config does not meet. */
export function failedExpectations(
  config: MergedConfig,
  expectations: readonly Expectation[],
): readonly Problem[] {
  const segments = {
    IPv4: flatten(compilePolicy(config, 'IPv4')),
    IPv6: flatten(compilePolicy(config, 'IPv6')),
  };
  return expectations.flatMap((expectation) => {
    const { prefix, verdict, origin } = expectation;
    const found = breaches(segments[prefix.family], expectation);
    if (found.length === 0) return [];
    const other = placeOf(config, prefix.family, found);
    return problem('expectation', {
      at: origin,
      message: `${formatRange(prefix.family, rangeOf(prefix))} is expected to be ${VERDICT_TEXT[verdict]}, but ${describeBreaches(config, prefix.family, found, found.length > 1)}`,
      remedy: 'correct the sources, or the expectation',
      ...(other && { other }),
    });
  });
}
