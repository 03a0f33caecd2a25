import type { MergedConfig } from '../../../lib/config/config.ts';
import { InvalidConfigError } from '../../../lib/config/invalid-config.ts';
import { mergeSources } from '../../../lib/config/load.ts';
import { readAgentInputs, readInputs } from '../../../lib/inputs/input.ts';
import { describePolicyChange } from '../../../lib/policy/changes.ts';
import { compilePolicy } from '../../../lib/policy/policy.ts';
import { EXIT } from '../exit.ts';
import type { FlagValues } from '../flags.ts';
import { configOptions, keptFamilies } from '../from-flags.ts';
import { print } from '../print.ts';
import { noteDefaults } from '../read-config.ts';
import { CONNECTIONS_LINE, verdictLines } from '../verdict-text.ts';

/**
 * Prints which addresses change their verdict if the sources of the directory replace those of --config-dir.
 *
 * @throws {InvalidConfigError} with the errors of both
 */
export async function compareWith(dir: string, flags: FlagValues): Promise<number> {
  const [before, after] = await readBoth(flags['config-dir'], dir, flags);
  const changes = keptFamilies(flags).map((family) => ({
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
  const options = configOptions(flags);
  const limit = options.configLimit;
  const inputs = [
    await readAgentInputs(first, limit),
    await readInputs([second], () => process.stdin, { limit }),
  ];
  const [a, b] = inputs.map((one) => ({ ...one, ...mergeSources(one.sources, options, one.problems) }));
  if (a?.config !== undefined && b?.config !== undefined) {
    noteDefaults(a.config, flags, true);
    return [a.config, b.config];
  }
  const failed = [
    ...(a?.config === undefined ? [first] : []),
    ...(b?.config === undefined ? [second] : []),
  ].join(' and ');
  const both = [a, b].flatMap((one) => one ?? []);
  throw new InvalidConfigError(
    both.flatMap(({ problems }) => problems),
    both.flatMap(({ sources, manifests }) => [...sources, ...manifests]),
    `the config in ${failed}`,
  );
}
