import assert from 'node:assert/strict';
import { lstatSync, readFileSync } from 'node:fs';
import { after, before, it } from 'node:test';
import { NODE_FLAGS } from '../../build/launch.ts';
import { REPOSITORY } from '../../build/repository.ts';
import { run, succeed } from '../lab/run.ts';
import { OWN } from './make.ts';
import { type MountedImage, mountImage } from './mounted.ts';
import type { ImageLab } from './support.ts';

/** The most bytes that an image may have, unpacked and as it is pulled. */
const UNPACKED = 150_000_000;
const PULLED = 55_000_000;

const IPTABLES = ['iptables', 'ip6tables'].flatMap((command) =>
  ['', '-nft', '-legacy'].flatMap((mode) =>
    ['', '-restore', '-save'].map((suffix) => `${command}${mode}${suffix}`),
  ),
);
const PROGRAMS = {
  '/usr/bin': ['ip-masq-agent', 'ip-masq-ranges', 'node'],
  '/usr/sbin': [...IPTABLES, 'xtables-legacy-multi', 'xtables-nft-multi'].toSorted(),
};
/** What the base does not have, and has to come with it. */
const PACKAGES = [
  ...[
    'iptables',
    'libip4tc2',
    'libip6tc2',
    'libmnl0',
    'libnetfilter-conntrack3',
    'libnfnetlink0',
    'libnftnl11',
  ],
  ...['libxtables12', 'netbase'],
];
const AGENT = '/usr/lib/ip-masq-agent/ip-masq-agent';
const SBOM = '/usr/share/sbom/ip-masq-agent.cdx.json';
const LICENCES = '/usr/share/doc/ip-masq-agent/THIRD-PARTY-LICENCES';
const STATUS = '/var/lib/dpkg/status.d';

interface Component {
  readonly name: string;
  readonly version: string;
}

/** What is in the image, and what is not. */
export function contents(get: () => ImageLab): void {
  const stack = new AsyncDisposableStack();
  let image: MountedImage;
  before(async () => {
    image = stack.use(await mountImage(get().image));
  });
  after(() => stack.disposeAsync());

  const inspect = async () =>
    JSON.parse(await get().docker.must('image', 'inspect', get().image))[0] as {
      readonly Size: number;
      readonly Config: {
        readonly Entrypoint: readonly string[];
        readonly User: string;
        readonly Env: readonly string[];
        readonly Labels: Readonly<Record<string, string>>;
      };
    };
  /** As the registry has it, which only the node reaches. */
  const manifest = async (name: string) =>
    JSON.parse(await succeed(get().docker.node.run('docker', ['manifest', 'inspect', '--insecure', name])));
  /** Runs a program of the image, in its root directory. */
  const inImage = (file: string, ...args: readonly string[]) =>
    run({ file: 'chroot', args: [image.path('/'), file, ...args] }, { PATH: '/usr/sbin:/usr/bin' });

  it('is within the budget', async (t) => {
    const { Size: unpacked } = await inspect();
    const { layers } = await manifest(get().image);
    const pulled = layers.reduce((sum: number, { size }: { size: number }) => sum + size, 0);
    t.diagnostic(`${unpacked} bytes, ${pulled} to pull`);
    assert.ok(unpacked <= UNPACKED && pulled <= PULLED);
  });

  it('has every library that its programs and the extensions of iptables load', async () => {
    const [loader = ''] = image.files.filter((path) => /\/ld-linux-[^/]+\.so\.\d$/.test(path));
    const extensions = image.files.filter((path) => /\/xtables\/lib(?:xt|ipt|ip6t)_\w+\.so$/.test(path));
    assert.ok(extensions.length > 90, `${extensions.length} extensions`);
    const programs = ['/usr/bin/node', '/usr/lib/ip-masq-agent/koffi.node'];
    for (const name of ['xtables-nft-multi', 'xtables-legacy-multi']) programs.push(`/usr/sbin/${name}`);
    for (const file of [...programs, ...extensions]) {
      // As ldd(1) does.
      const { code, stdout, stderr } = await inImage(loader, '--list', file);
      assert.equal(code, 0, `${file}: ${stdout}${stderr}`);
      assert.doesNotMatch(stdout, /not found/, file);
    }
  });

  it('has the agent, Node.js, and the commands of iptables: no shell, npm or apt', () => {
    for (const [dir, programs] of Object.entries(PROGRAMS)) assert.deepEqual(image.names(dir), programs);
    assert.match(image.text(AGENT), /^#!\/usr\/bin\/node\n/);
    // If no volume is mounted the agent must say so, not find an empty directory.
    assert.ok(!image.all.includes('/etc/config'));
  });

  it('is root’s, and gives nobody else a right to write or to become root', () => {
    const wrong = image.files.filter((path) => {
      const { uid, gid, mode } = lstatSync(image.path(path));
      return uid !== 0 || gid !== 0 || (mode & 0o7022) !== 0;
    });
    assert.deepEqual(wrong, []);
  });

  it('tells by labels what it is, and starts the agent without a shell', async () => {
    const { Config: config } = await inspect();
    const labels = Object.entries(config.Labels).map(([name, value]) => [name.split('.').at(-1), value]);
    const { title, description, source, version, revision, created } = Object.fromEntries(labels);
    const expected = ['ip-masq-agent', `https://github.com/${REPOSITORY}`, get().version];
    assert.deepEqual([title, source, version], expected);
    assert.match(revision, /^[0-9a-f]{40}$/);
    assert.match(created, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    assert.ok(description);
    assert.deepEqual([config.Entrypoint, config.User], [['/usr/bin/ip-masq-agent'], '0:0']);
  });

  it('tells scanners what is in it: npm’s packages, Debian’s packages and release', () => {
    const bom = JSON.parse(image.text(SBOM));
    assert.equal(bom.metadata.component.version, get().version);
    const { version } = JSON.parse(
      readFileSync(new URL('../../node_modules/pino/package.json', import.meta.url), 'utf8'),
    );
    const components: readonly Component[] = bom.components;
    assert.ok(components.some((one) => one.name === 'pino' && one.version === version));
    assert.ok(components.some(({ name }) => name.startsWith('@koromix/koffi-linux-')));
    // Only for tests and builds.
    assert.ok(!components.some(({ name }) => /esbuild|typescript|node-linux|kustomize/.test(name)));
    assert.deepEqual(
      PACKAGES.filter((name) => !image.names(STATUS).includes(name)),
      [],
    );
    assert.match(image.text(`${STATUS}/iptables`), /^Version: 1\.8\.\d+/m);
    assert.match(image.text('/etc/os-release'), /^VERSION_ID="13"$/m);
  });

  it('has the licences of all that others have made', () => {
    const text = image.text(LICENCES);
    for (const licence of [
      '\npino ',
      '\n@koromix/koffi-linux-',
      'Permission is hereby granted',
      'Niels Martignène',
    ])
      assert.ok(text.includes(licence), licence);
    assert.match(image.text('/usr/share/doc/nodejs/copyright'), /^Node\.js is licensed/);
    for (const name of PACKAGES) assert.ok(image.text(`/usr/share/doc/${name}/copyright`).length > 0, name);
    assert.match(image.text('/usr/share/common-licenses/GPL-2'), /GNU GENERAL PUBLIC LICENSE/);
  });

  it('has no time of a build, which would make other layers of the same files', () => {
    const own = image.files.filter((path) => /ip-masq-agent|nodejs|xtables|status\.d/.test(path));
    const times = new Set(own.map((path) => lstatSync(image.path(path)).mtimeMs / 1000));
    assert.deepEqual(times, new Set([0, get().time]));
  });

  it('holds code that is compiled for the Node.js in it', async () => {
    const flags = ['--v=3', '--config-dir=/nowhere'];
    const { stderr } = await inImage('/usr/bin/node', ...NODE_FLAGS, AGENT, ...flags);
    assert.match(stderr, /"starting ip-masq-agent/);
    assert.doesNotMatch(stderr, /the start was slow/);
  });

  it('is pushed under one name for all machines', async () => {
    const { manifests } = await manifest(`${get().registry}/ip-masq-agent:${get().version}`);
    assert.deepEqual(
      manifests.map(({ platform }: { platform: { architecture: string } }) => platform.architecture),
      [OWN],
    );
  });
}
