import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdir, realpath, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { loadAll } from 'js-yaml';
import { REPOSITORY } from '../../build/repository.ts';
import packageJson from '../../package.json' with { type: 'json' };
import { run, succeed } from '../lab/run.ts';
import { temporaryDirectory } from '../lab/volume.ts';
import { audit } from './audit.ts';
import { containerIn, type KubernetesObject, ofKind } from './documents.ts';
import { builders } from './support.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PAGE = new URL('../../docs/install.md', import.meta.url);
const ENV = { PATH: process.env['PATH'] ?? '' };
const DIGEST = `sha256:${'ab'.repeat(32)}`;

describe('a kustomization that takes the base from a tag of the repository', () => {
  for (const builder of builders)
    it(`sets image, namespace and a config file, as the documentation shows, with ${builder.name}`, async () => {
      await using temporary = await temporaryDirectory();
      const dir = await realpath(temporary.path);
      await tagExamples(join(dir, 'ip-masq-agent.git'), `v${packageJson.version}`);
      const mine = join(dir, 'mine');
      await mkdir(mine);
      await writeFile(join(mine, 'kustomization.yaml'), snippet());

      // git takes the repository of the test for the one on GitHub.
      const text = await builder.build(mine, {
        GIT_CONFIG_COUNT: '1',
        GIT_CONFIG_KEY_0: `url.file://${dir}/.insteadOf`,
        GIT_CONFIG_VALUE_0: `https://github.com/${REPOSITORY.replace(/[^/]+$/, '')}`,
      });
      const objects = loadAll(text) as readonly KubernetesObject[];
      assert.equal(containerIn(objects).image, `registry.internal/networking/ip-masq-agent@${DIGEST}`);
      const configFiles = ofKind('ConfigMap', objects);
      const operator = configFiles.find(({ metadata }) => metadata.name === 'ip-masq-operator');
      assert.match(operator?.data?.['ip-masq-operator'] ?? '', /fd00:10::/);
      const elsewhere = objects.filter(({ metadata }) => metadata.namespace === 'node-network');
      assert.equal(elsewhere.length, objects.length);
      const problems = audit(objects).filter((problem) => !problem.endsWith('not in kube-system'));
      assert.deepEqual(problems, []);
    });
});

/** The example of the page, with a digest. */
function snippet(): string {
  const blocks = [...readFileSync(PAGE, 'utf8').matchAll(/^```yaml\n(.*?)^```$/gms)];
  const found = blocks.map(([, text = '']) => text).find((text) => text.includes('?ref='));
  assert.ok(found, 'no block has a remote base');
  return found.replace('sha256:…', DIGEST);
}

/** Makes a repository with the examples as they are in the work tree, under a tag. */
async function tagExamples(repository: string, tag: string): Promise<void> {
  const must = (file: string, ...args: readonly string[]) => succeed(run({ file, args }, ENV));
  await mkdir(repository);
  await must('cp', '-R', join(ROOT, 'examples'), repository);
  const author = ['user.name=test', 'user.email=test@example.com', 'commit.gpgsign=false'];
  const git = (...args: readonly string[]) =>
    must('git', '-C', repository, ...author.flatMap((setting) => ['-c', setting]), ...args);
  await git('init', '--quiet');
  await git('add', '.');
  await git('commit', '--quiet', '--message=examples');
  await git('tag', tag);
}
