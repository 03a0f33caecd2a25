import type { MergedConfig } from '../../../lib/config/config.ts';
import { InvalidConfigError } from '../../../lib/config/invalid-config.ts';
import { configChangeLines } from '../../../lib/policy/changes.ts';
import type { Args } from '../command.ts';
import type { RENDER_FLAGS } from '../command-flags.ts';
import { EXIT, UsageError } from '../exit.ts';
import { keptFamilies } from '../from-flags.ts';
import { print } from '../print.ts';
import { noteDefaults, readReport } from '../read-config.ts';

type RenderFlags = Args<typeof RENDER_FLAGS>['flags'];

/**
 * Prints which addresses change their verdict if the config files of --diff-to replace those of --filename or --config-dir.
 *
 * @throws {InvalidConfigError} with the errors of both
 */
export async function compareSources(flags: RenderFlags): Promise<number> {
  const [before, after] = await readBoth(flags);
  const { differs, lines } = configChangeLines(before, after, keptFamilies(flags));
  print([...lines, ''].join('\n'));
  return differs ? EXIT.different : EXIT.ok;
}

/** Reads both as `check` does: problems have the directory before the name, because both may have the same names. */
async function readBoth(flags: RenderFlags): Promise<readonly [MergedConfig, MergedConfig]> {
  const { filename, 'diff-to': others, recursive } = flags;
  if (filename.includes('-') && others.includes('-'))
    throw new UsageError('--filename and --diff-to cannot both read standard input');
  const a = await readReport({ ...flags, recursive: recursive && filename.length > 0 }, filename);
  const b = await readReport(flags, others);
  if (a.config !== undefined && b.config !== undefined) {
    noteDefaults(a.config, flags, true);
    return [a.config, b.config];
  }
  const failed = [
    ...(a.config === undefined ? [filename.join(', ') || flags['config-dir']] : []),
    ...(b.config === undefined ? [others.join(', ')] : []),
  ].join(' and ');
  throw new InvalidConfigError(
    [a, b].flatMap(({ problems }) => problems),
    [a, b].flatMap(({ configFiles, manifests = [] }) => [...configFiles, ...manifests]),
    `the config in ${failed}`,
  );
}
