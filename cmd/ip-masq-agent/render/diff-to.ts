import type { MergedConfig } from '../../../lib/config/config.ts';
import { InvalidConfigError } from '../../../lib/config/invalid-config.ts';
import { mergeSources } from '../../../lib/config/load.ts';
import { readAgentInputs } from '../../../lib/lint/input.ts';
import { describePolicyChange } from '../../../lib/policy/changes.ts';
import { compilePolicy, keptFamilies } from '../../../lib/policy/policy.ts';
import { EXIT } from '../exit.ts';
import type { FlagValues } from '../flags.ts';
import { configOptions } from '../from-flags.ts';
import { print } from '../print.ts';
import { CONNECTIONS_LINE, verdictLines } from '../verdict-text.ts';

/**
 * Prints which addresses change their verdict if the sources of the directory replace those of --config-dir.
 *
 * @throws {InvalidConfigError} with the errors of both
 */
export async function compareWith(dir: string, flags: FlagValues): Promise<number> {
  const [before, after] = await readBoth(flags['config-dir'], dir, flags);
  const changes = keptFamilies(flags['enable-ipv6']).map((family) => ({
    family,
    ...describePolicyChange(compilePolicy(before, family), compilePolicy(after, family)),
  }));
  const differs = changes.some(({ lines }) => lines.length > 0);
  const text = changes.flatMap((change) => verdictLines(change.family, change));
  print([...text, ...(differs ? [CONNECTIONS_LINE] : []), ''].join('\n'));
  return differs ? EXIT.different : EXIT.ok;
}

/** Reads both as `check` does: problems have the directory before the name, because both may have the same names. */
async function readBoth(
  first: string,
  second: string,
  flags: FlagValues,
): Promise<readonly [MergedConfig, MergedConfig]> {
  const [a, b] = [await read(first, flags), await read(second, flags)];
  if (a.config !== undefined && b.config !== undefined) return [a.config, b.config];
  const subject =
    a.config === undefined && b.config === undefined ? 'the two configs' : 'one of the two configs';
  throw new InvalidConfigError([...a.problems, ...b.problems], [...a.sources, ...b.sources], subject);
}

async function read(dir: string, flags: FlagValues) {
  const options = configOptions(flags);
  const { sources, problems } = await readAgentInputs(dir, options.configLimit);
  return { sources, ...mergeSources(sources, options, problems) };
}
