import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { type RunResult, run } from '../lab/run.ts';
import { ROOT } from './make.ts';

interface Action {
  readonly inputs: Readonly<Record<string, { readonly default?: string }>>;
  readonly runs: {
    readonly steps: readonly {
      readonly shell: string;
      readonly env: Readonly<Record<string, string>>;
      readonly run: string;
    }[];
  };
}

/**
 * Runs the steps of the GitHub Action as a runner does: each in a new shell, until one fails.
 *
 * @param dir a directory that is not there yet, for the runner's files
 * @param bin where the command is, and what else the last step runs; without it, the first step installs the command
 * @returns the result of the last step that ran
 */
export async function runAction(
  dir: string,
  inputs: Readonly<Record<string, string>>,
  bin?: string,
): Promise<RunResult> {
  const { inputs: known, runs } = load(
    await readFile(join(ROOT, '.github/actions/check/action.yml'), 'utf8'),
  ) as Action;
  for (const name of Object.keys(inputs)) assert.ok(name in known, name);
  const value = (text: string) =>
    text.replace(
      /^\$\{\{ inputs\.(\w+) \}\}$/,
      (_, name: string) => inputs[name] ?? known[name]?.default ?? '',
    );
  await mkdir(dir);
  const runner = { RUNNER_TEMP: dir, GITHUB_PATH: join(dir, 'path') };
  await writeFile(runner.GITHUB_PATH, bin ?? '');
  let result: RunResult | undefined;
  for (const { shell, env, run: script } of runs.steps.slice(bin === undefined ? 0 : 1)) {
    assert.equal(shell, 'bash');
    const added = (await readFile(runner.GITHUB_PATH, 'utf8')).split('\n').filter((line) => line !== '');
    const own = Object.fromEntries(Object.entries(env).map(([name, text]) => [name, value(text)]));
    const PATH = [...added.toReversed(), '/usr/bin', '/bin'].join(':');
    // The flags are those of a runner.
    const args = ['--noprofile', '--norc', '-eo', 'pipefail', '-c', script];
    result = await run({ file: 'bash', args }, { ...runner, ...own, PATH });
    if (result.code !== 0) break;
  }
  return result ?? assert.fail('no step');
}
