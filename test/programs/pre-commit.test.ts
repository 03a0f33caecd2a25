import assert from 'node:assert/strict';
import { cp, mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { launcherScript } from '../../build/launch.ts';
import { BINARY } from '../lab/binary.ts';
import { type RunResult, run, succeed } from '../lab/run.ts';
import { temporaryDirectory } from '../lab/volume.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const GOOD = 'nonMasqueradeCIDRs: [10.0.0.0/8]\n';
const CONFLICT = 'masqueradeCIDRs: [10.0.0.0/8]\n';

describe('pre-commit', () => {
  for (const [installed, install] of [
    ['by an archive of a release', installCommand],
    // pre-commit reads the first line of a program itself: an assignment behind `env -S` is a program to it.
    ['by a build', async () => dirname(BINARY)],
  ] as const)
    it(`runs the hook on all config files of a directory if one of them changes: ${installed}`, async () => {
      await using temporary = await temporaryDirectory();
      const dir = temporary.path;
      const env = {
        PATH: `${await install(dir)}:${process.env['PATH']}`,
        HOME: dir,
        GIT_CONFIG_COUNT: '2',
        GIT_CONFIG_KEY_0: 'user.name',
        GIT_CONFIG_VALUE_0: 'test',
        GIT_CONFIG_KEY_1: 'user.email',
        GIT_CONFIG_VALUE_1: 'test@example.com',
      };
      const git = (repository: string, ...args: readonly string[]) =>
        succeed(run({ file: 'git', args: ['-C', join(dir, repository), ...args] }, env));
      for (const repository of ['hooks', 'mine/prod'])
        await mkdir(join(dir, repository), { recursive: true });
      await cp(join(ROOT, '.pre-commit-hooks.yaml'), join(dir, 'hooks/.pre-commit-hooks.yaml'));
      await git('hooks', 'init', '--quiet');
      await git('hooks', 'add', '.');
      await git('hooks', 'commit', '--quiet', '--message=hooks');
      const rev = (await git('hooks', 'rev-parse', 'HEAD')).trim();

      const hooks = [{ id: 'ip-masq-agent-check', args: ['--recursive', 'prod'] }];
      const config = { repos: [{ repo: join(dir, 'hooks'), rev, hooks }] };
      await writeFile(join(dir, 'mine/.pre-commit-config.yaml'), JSON.stringify(config));
      await git('mine', 'init', '--quiet');
      /** Runs the hooks for what is about to be committed. */
      const commit = async (name: string, text: string): Promise<RunResult> => {
        await writeFile(join(dir, 'mine', name), text);
        await git('mine', 'add', '.');
        const { code, ...rest } = await run(
          { file: 'env', args: ['-C', join(dir, 'mine'), 'pre-commit', 'run'] },
          env,
        );
        if (code === 0) await git('mine', 'commit', '--quiet', `--message=${name}`);
        return { code, ...rest };
      };

      const good = await commit('prod/ip-masq-operator', GOOD);
      assert.equal(good.code, 0, good.stdout + good.stderr);
      const unrelated = await commit('notes.txt', CONFLICT);
      assert.match(unrelated.stdout, /no files to check/);
      const bad = await commit('prod/ip-masq-cloud', CONFLICT);
      assert.equal(bad.code, 1);
      assert.match(bad.stdout, /prod\/ip-masq-operator:1:22/);
    });
});

/** Lays out the command as an archive of a release has it. Returns the directory for the PATH. */
async function installCommand(dir: string): Promise<string> {
  const [bin, lib] = [join(dir, 'bin'), join(dir, 'lib/ip-masq-agent')];
  for (const path of [bin, lib]) await mkdir(path, { recursive: true });
  await writeFile(join(bin, 'ip-masq-agent'), launcherScript(), { mode: 0o755 });
  await symlink(process.execPath, join(lib, 'node'));
  await symlink(BINARY, join(lib, 'ip-masq-agent'));
  return bin;
}
