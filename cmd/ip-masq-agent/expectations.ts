import type { Prefix } from '../../lib/cidr/prefix.ts';
import { formatRange, rangeOf } from '../../lib/cidr/ranges.ts';
import type { ConfigOptions, MergedConfig } from '../../lib/config/config.ts';
import { problemFramer } from '../../lib/config/frame.ts';
import { type Problem, problem } from '../../lib/config/problem.ts';
import type { Source } from '../../lib/config/source.ts';
import { type Expectation, readExpectations } from '../../lib/inputs/expectations.ts';
import { readFile } from '../../lib/inputs/input.ts';
import { flatten } from '../../lib/policy/flatten.ts';
import { compilePolicy, type Family, VERDICT_TEXT } from '../../lib/policy/policy.ts';
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
  const compiled = (family: Family) => {
    const policy = compilePolicy(config, family);
    return { policy, segments: flatten(policy) };
  };
  const known = { IPv4: compiled('IPv4'), IPv6: compiled('IPv6') };
  return expectations.flatMap((expectation) => {
    const { prefix, from, verdict, origin } = expectation;
    const { policy, segments } = known[prefix.family];
    const found = breaches(policy, segments, expectation);
    if (found === undefined) return [];
    const other = placeOf(config, prefix.family, found);
    return problem('expectation', {
      at: origin,
      message: `${meantText(prefix)}${from === undefined ? '' : ` from ${meantText(from)}`} is expected to be ${VERDICT_TEXT[verdict]}, but ${describeBreaches(config, prefix.family, found, found.destinations.length > 1)}`,
      remedy:
        from === undefined && found.elsewhere.length > 0
          ? `correct the sources, or say in the expectation whose packets are meant: "${meantText(prefix)} from CIDR"`
          : 'correct the sources, or the expectation',
      ...(other && { other }),
    });
  });
}

/** An address, or a CIDR. */
function meantText(prefix: Prefix): string {
  return formatRange(prefix.family, rangeOf(prefix));
}
