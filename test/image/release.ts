import assert from 'node:assert/strict';
import { lstatSync, readdirSync, readFileSync } from 'node:fs';
import { appendFile, cp, mkdir, rename, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, it } from 'node:test';
import { load, loadAll } from 'js-yaml';
import { type RunResult, run, succeed } from '../lab/run.ts';
import { temporaryDirectory } from '../lab/volume.ts';
import { audit } from '../manifests/audit.ts';
import { containersOf, type KubernetesObject, ofKind, theDaemonSet } from '../manifests/documents.ts';
import { makeCommand, OWN, ROOT } from './make.ts';
import type { ImageLab } from './support.ts';

/** A machine without Node.js. */
const BARE = { PATH: '/usr/bin:/bin' };
const EXAMPLE = join(ROOT, 'examples/config-custom.yaml');

/** What `make release` writes, and that it can be used. */
export function release(get: () => ImageLab): void {
  const stack = new AsyncDisposableStack();
  let dir: string;
  before(async () => {
    dir = stack.use(await temporaryDirectory()).path;
  });
  after(() => stack.disposeAsync());

  const file = (name: string) => join(get().release, name);
  const archive = () => `ip-masq-agent-${get().version}-linux-${OWN}`;
  const checkSums = (where: string): Promise<RunResult> =>
    run({ file: 'env', args: ['-C', where, 'sha256sum', '--check', '--strict', 'SHA256SUMS'] }, BARE);
  const unpack = async (into: string) => {
    await mkdir(into, { recursive: true });
    await succeed(
      run({ file: 'tar', args: ['-x', '-z', '-f', file(`${archive()}.tar.gz`), '-C', into] }, BARE),
    );
    return join(into, archive());
  };
  /** As `helm package` names it. */
  const chartFile = () => `ip-masq-agent-${get().version.slice(1)}.tgz`;
  /** The image by its digest, as a cluster pulls it. */
  const pinned = () =>
    readFileSync(file('images.txt'), 'utf8')
      .trim()
      .replace(/:[^:@]*@/, '@');

  it('has what people install, and checksums of all of it', async () => {
    const names = readdirSync(get().release);
    assert.deepEqual(
      names.toSorted(),
      [
        'SHA256SUMS',
        'grafana-dashboard.json',
        'images.txt',
        'install.yaml',
        chartFile(),
        `${archive()}.tar.gz`,
        'ip-masq-agent.openvex.json',
        'kubectl-ip_masq',
        'prometheus-rules.yaml',
      ].toSorted(),
    );
    const { code, stdout } = await checkSums(get().release);
    assert.equal(code, 0);
    assert.equal(stdout.split(': OK\n').length, names.length);
    const changed = join(dir, 'changed');
    await cp(get().release, changed, { recursive: true });
    await appendFile(join(changed, 'install.yaml'), '#');
    assert.equal((await checkSums(changed)).code, 1);
  });

  it('has a manifest with all that the agent needs, and the image by the digest that the registry has', async () => {
    const objects = loadAll(readFileSync(file('install.yaml'), 'utf8')) as readonly KubernetesObject[];
    assert.deepEqual(await audit(objects), []);
    for (const { metadata } of objects)
      assert.equal(metadata.labels?.['app.kubernetes.io/version'], get().version, metadata.name);
    // An upgrade leaves these out, which people have edited.
    const config = objects.filter(
      ({ metadata }) => metadata.labels?.['app.kubernetes.io/component'] === 'config',
    );
    assert.deepEqual(config, ofKind('ConfigMap', objects));
    const images = containersOf(theDaemonSet(objects)).map(({ image }) => image);
    assert.deepEqual(images, [pinned()]);
    assert.ok(pinned().startsWith(`${get().registry}/ip-masq-agent@sha256:`), pinned());
    const { docker } = get();
    await docker.must('pull', '--quiet', pinned());
    const id = (image: string) => docker.must('image', 'inspect', '--format={{.Id}}', image);
    assert.equal(await id(pinned()), await id(get().image));
  });

  it('has the Helm chart with the image by its digest, and with the files that are links in the repository', async () => {
    const into = join(dir, 'chart');
    await mkdir(into);
    await succeed(run({ file: 'tar', args: ['-x', '-z', '-f', file(chartFile()), '-C', into] }, BARE));
    const chart = join(into, 'ip-masq-agent');
    const read = (path: string) => readFileSync(join(chart, path), 'utf8');
    const { image } = load(read('values.yaml')) as { readonly image: object };
    const [repository, digest] = pinned().split('@');
    assert.deepEqual(image, { repository, tag: '', digest, pullPolicy: 'IfNotPresent' });
    const about = load(read('Chart.yaml')) as { readonly version: string; readonly appVersion: string };
    assert.deepEqual([`v${about.version}`, about.appVersion], [get().version, get().version]);
    const source = join(ROOT, 'examples/helm/ip-masq-agent');
    const files = readdirSync(chart, { recursive: true });
    assert.deepEqual(files.toSorted(), readdirSync(source, { recursive: true }).toSorted());
    const own = ['values.yaml', 'Chart.yaml'];
    for (const name of files.map(String).filter((path) => /\.\w+$/.test(path) && !own.includes(path))) {
      assert.ok(!lstatSync(join(chart, name)).isSymbolicLink(), name);
      assert.equal(read(name), readFileSync(join(source, name), 'utf8'), name);
    }
  });

  it('has a command that runs where there is no Node.js, from any directory and through a link', async () => {
    const tree = await unpack(join(dir, 'a directory'));
    const link = join(dir, 'ip-masq-agent');
    await symlink(join(tree, 'bin/ip-masq-agent'), link);
    const agent = (...args: readonly string[]) => run({ file: link, args }, BARE);

    const good = await agent('check', '--strict', EXAMPLE);
    assert.equal(good.code, 0, good.stderr);
    assert.match(good.stdout, /172\.20\.99\.0\/24/);
    const mistake = join(dir, 'ip-masq-operator');
    await writeFile(mistake, 'nonMasqueradeCIDRs: [10.0.0.1/8]\n');
    const bad = await agent('check', mistake);
    assert.equal(bad.code, 3);
    assert.match(bad.stdout, /ip-masq-operator:1:22: error: /);
    assert.match((await agent('version')).stdout, new RegExp(`^ip-masq-agent ${get().version} `));

    await rename(tree, join(dir, 'moved'));
    const moved = { file: join(dir, 'moved/bin/ip-masq-agent'), args: ['check', EXAMPLE] };
    assert.equal((await run(moved, BARE)).code, 0);
  });

  it('has the plugin of kubectl, which is of this version and needs no file beside it', async () => {
    const plugin = join(dir, 'plugin', 'kubectl-ip_masq');
    await cp(file('kubectl-ip_masq'), plugin);
    const command = { file: process.execPath, args: [plugin, '--version'] };
    assert.match(await succeed(run(command, BARE)), new RegExp(`^ip-masq-agent ${get().version} `));
    assert.match(readFileSync(plugin, 'utf8'), /^#!\/usr\/bin\/env node\n/);
  });

  it('says which vulnerabilities of Node.js do not affect the agent, and why', () => {
    const { statements } = JSON.parse(readFileSync(file('ip-masq-agent.openvex.json'), 'utf8'));
    assert.ok(statements.length > 0);
    for (const { vulnerability, products, status, justification, impact_statement: reason } of statements) {
      assert.match(vulnerability.name, /^CVE-\d{4}-\d+$/);
      assert.deepEqual(products, [{ '@id': 'pkg:oci/ip-masq-agent' }]);
      assert.deepEqual([status, justification], ['not_affected', 'vulnerable_code_not_in_execute_path']);
      assert.match(reason, /^The agent .*\.$/);
    }
  });

  it('is refused without a version', async () => {
    for (const version of ['', 'latest', 'df54966', 'v1', 'v1.2.3 '])
      await assert.rejects(
        succeed(run(makeCommand('022', 'release', 'REGISTRY=registry.invalid', `VERSION=${version}`), BARE)),
        /set VERSION, for example VERSION=v1\.2\.3/,
        version,
      );
  });
}
