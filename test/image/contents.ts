import assert from 'node:assert/strict';
import { lstatSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { ENVIRONMENT, NODE_FLAGS } from '../../build/launch.ts';
import { REPOSITORY } from '../../build/repository.ts';
import { run, succeed } from '../lab/run.ts';
import { temporaryDirectory } from '../lab/volume.ts';
import { cycloneDxErrors } from './cyclonedx.ts';
import { type ExportedImage, exportImage } from './exported.ts';
import { ROOT } from './make.ts';
import { type ImageLab, machineOf, OTHER, OWN } from './support.ts';

/** The most bytes that an image may have: as archives of its three layers, and as it is pulled. */
const UNPACKED = 122_000_000;
const PULLED = 46_000_000;

const ELF = Buffer.from('\x7fELF');

/** QEMU's programs that run a program for another CPU. They refuse sockets to netfilter. */
const EMULATORS = { amd64: 'qemu-x86_64', arm64: 'qemu-aarch64' };

/** What an error has as its code can only come through the native module. */
const PROBE = `import { NfTables } from './lib/netlink/nf-tables.ts';
try { new NfTables(); } catch ({ failure, code }) { console.log(failure, code); }`;

const IPTABLES = ['iptables', 'ip6tables'].flatMap((command) =>
  ['', '-nft', '-legacy'].flatMap((mode) =>
    ['', '-restore', '-save'].map((suffix) => `${command}${mode}${suffix}`),
  ),
);
const PROGRAMS = {
  '/usr/bin': ['ip-masq-agent', 'node'],
  '/usr/sbin': [...IPTABLES, 'xtables-legacy-multi', 'xtables-nft-multi'].toSorted(),
};

const SBOM = '/usr/share/sbom/ip-masq-agent.cdx.json';
const LICENCES = '/usr/share/doc/ip-masq-agent/THIRD-PARTY-LICENCES';
const STATUS = '/var/lib/dpkg/status.d';

/** Every file of an image matches one of these, and each of these has a file. */
const FILES = [
  /^\/usr\/s?bin\/[^/]+$/,
  /^\/usr\/lib(?:64)?\/(?:[^/]+-linux-gnu\/)?[^/]+\.so(?:\.\d+)*$/,
  /^\/usr\/lib\/[^/]+-linux-gnu\/xtables\/libxt_\w+\.so$/,
  /^\/usr\/lib\/[^/]+-linux-gnu\/xtables\/libipt_\w+\.so$/,
  /^\/usr\/lib\/[^/]+-linux-gnu\/xtables\/libip6t_\w+\.so$/,
  /^\/usr\/share\/doc\/[^/]+\/copyright$/,
  /^\/usr\/share\/common-licenses\/[^/]+$/,
  /^\/var\/lib\/dpkg\/status\.d\/[^/]+$/,
  ...[
    '/etc/group',
    '/etc/nsswitch.conf',
    '/etc/passwd',
    '/etc/protocols',
    '/etc/services',
    '/usr/lib/ip-masq-agent/ip-masq-agent',
    '/usr/lib/ip-masq-agent/ip-masq-agent.bundle',
    '/usr/lib/ip-masq-agent/koffi.node',
    '/usr/lib/ip-masq-agent/package.json',
    '/usr/lib/os-release',
    '/usr/share/doc/ip-masq-agent/LICENSE',
    LICENCES,
    SBOM,
  ].map((path) => new RegExp(`^${path.replaceAll('.', '\\.')}$`)),
];

interface Bom {
  readonly metadata: { readonly component: { readonly version: string } };
  readonly components: readonly BomComponent[];
}

interface BomComponent {
  readonly name: string;
  readonly version: string;
  readonly purl: string;
  readonly components?: readonly Pick<BomComponent, 'name' | 'version'>[];
}

/** What is in the images, and what is not. */
export function contents(get: () => ImageLab): void {
  const stack = new AsyncDisposableStack();
  let image: ExportedImage;
  let other: ExportedImage;
  before(async () => {
    image = stack.use(await exportImage(get().docker, get().image(OWN)));
    other = stack.use(await exportImage(get().docker, get().image(OTHER)));
  });
  after(() => stack.disposeAsync());

  const docker = (...args: string[]) => get().docker.must(...args);
  const inspect = async (architecture = OWN) =>
    JSON.parse(await docker('image', 'inspect', get().image(architecture)))[0];
  const bom = (exported: ExportedImage): Bom => JSON.parse(exported.text(SBOM));

  for (const architecture of [OWN, OTHER])
    it(`of ${architecture} are three layers, within the budget`, (t) => {
      const layout = join(ROOT, 'bin/image', architecture, 'oci');
      const blob = (digest: string) => readFileSync(join(layout, 'blobs', digest.replace(':', '/')));
      const { manifests } = JSON.parse(readFileSync(join(layout, 'index.json'), 'utf8'));
      const { layers } = JSON.parse(blob(manifests[0].digest).toString());
      const pulled = layers.map(({ size }: { size: number }) => size);
      const unpacked = layers.map(({ digest }: { digest: string }) => gunzipSync(blob(digest)).length);
      t.diagnostic(`${unpacked.join(' + ')} bytes, ${pulled.join(' + ')} to pull`);
      assert.equal(layers.length, 3);
      const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0);
      assert.ok(sum(unpacked) <= UNPACKED && sum(pulled) <= PULLED);
    });

  it('hold what they are to hold and nothing else', () => {
    for (const { files, all } of [image, other]) {
      const unknown = files.filter((path) => !FILES.some((pattern) => pattern.test(path)));
      const missing = FILES.filter((pattern) => !files.some((path) => pattern.test(path)));
      assert.deepEqual({ unknown, missing }, { unknown: [], missing: [] });
      // kubelet mounts the lock of the node here.
      assert.ok(all.includes('/run'));
      // If no volume is mounted the agent must say so, not find an empty directory.
      assert.ok(!all.includes('/etc/config'));
    }
    for (const file of ['/etc/passwd', '/etc/group']) assert.match(image.text(file), /^root:x:0:/);
  });

  it('have the agent, Node.js, and the commands of iptables: no shell, npm or apt', () => {
    for (const [dir, programs] of Object.entries(PROGRAMS)) assert.deepEqual(image.names(dir), programs);
    const executable = image.files.filter(
      (path) => (lstatSync(image.path(path)).mode & 0o111) !== 0 && !/\.so[.\d]*$/.test(path),
    );
    assert.deepEqual(executable, [
      '/usr/bin/node',
      '/usr/lib/ip-masq-agent/ip-masq-agent',
      '/usr/sbin/xtables-legacy-multi',
      '/usr/sbin/xtables-nft-multi',
    ]);
    const scripts = image.files.filter((path) => image.bytes(path).toString('latin1', 0, 2) === '#!');
    assert.deepEqual(scripts, ['/usr/lib/ip-masq-agent/ip-masq-agent']);
    assert.match(image.text('/usr/lib/ip-masq-agent/ip-masq-agent'), /^#!\/usr\/bin\/node\n/);
  });

  it('are root’s, and give nobody else a right to write or to become root', () => {
    const wrong = image.all.filter((path) => {
      const { uid, gid, mode } = lstatSync(image.path(path));
      return uid !== 0 || gid !== 0 || (mode & 0o7022) !== 0;
    });
    assert.deepEqual(wrong, []);
  });

  it('hold Node.js as its package has it, without its symbols', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'node');
    const args = ['--strip-all', '-o', file, process.execPath];
    await succeed(run({ file: 'strip', args }, { PATH: process.env['PATH'] ?? '' }));
    assert.ok(readFileSync(file).equals(image.bytes('/usr/bin/node')));
  });

  it('hold the packages of Debian 13 that packages.lock names', () => {
    const lock = readFileSync(new URL('../../build/image/packages.lock', import.meta.url), 'utf8');
    for (const [architecture, exported] of [
      [OWN, image],
      [OTHER, other],
    ] as const) {
      const locked = [...lock.matchAll(/\/([^/_]+)_[^/_]+_(\w+)\.deb$/gm)]
        .filter(([, , of]) => of === architecture || of === 'all')
        .map(([, name]) => name);
      assert.deepEqual(exported.names(STATUS), locked.toSorted());
    }
    assert.match(image.text('/usr/lib/os-release'), /^VERSION_ID="13"$/m);
    assert.ok(!image.names(STATUS).includes('nftables'));
  });

  it('tell by annotations what they are, and start the agent without a shell', async () => {
    const { Created: created, Config: config } = await inspect();
    const labels = Object.entries(config.Labels).map(([name, value]) => [name.split('.').at(-1), value]);
    const { description, revision, ...rest } = Object.fromEntries(labels);
    assert.deepEqual(rest, {
      title: 'ip-masq-agent',
      licenses: 'Apache-2.0',
      source: `https://github.com/${REPOSITORY}`,
      version: get().version,
      created,
    });
    assert.match(revision, /^[0-9a-f]{40}$/);
    assert.match(created, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    assert.ok(description);
    const environment = { PATH: '/usr/sbin:/usr/bin', NODE_OPTIONS: NODE_FLAGS.join(' '), ...ENVIRONMENT };
    assert.deepEqual(
      { entrypoint: config.Entrypoint, user: config.User, environment: config.Env },
      {
        entrypoint: ['/usr/bin/ip-masq-agent'],
        user: '0:0',
        environment: Object.entries(environment).map(([name, value]) => `${name}=${value}`),
      },
    );
  });

  it('have a valid bill of materials, which names what npm, Node.js and Debian have part in', () => {
    for (const exported of [image, other]) assert.deepEqual(cycloneDxErrors(bom(exported)), []);
    const { metadata, components } = bom(image);
    assert.equal(metadata.component.version, get().version);
    for (const { name, version } of components.flatMap((one) => [one, ...(one.components ?? [])]))
      assert.ok(version, name);
    const pino = new URL('../../node_modules/pino/package.json', import.meta.url);
    const { version } = JSON.parse(readFileSync(pino, 'utf8'));
    const find = (purl: string) => components.find((one) => one.purl === purl);
    assert.ok(find(`pkg:npm/pino@${version}`));
    const node = find(`pkg:npm/node-linux-${process.arch}@${process.version.slice(1)}`);
    assert.ok(node?.components?.some(({ name }) => name === 'openssl'));
    assert.ok(components.some(({ purl }) => purl.startsWith('pkg:npm/%40koromix/koffi-linux-')));
    // Only for tests and builds.
    assert.ok(!components.some(({ name }) => /esbuild|typescript|cyclonedx/.test(name)));
    const ofDebian = components.filter(({ purl }) => purl.startsWith('pkg:deb/'));
    assert.deepEqual(ofDebian.map(({ name }) => name).toSorted(), image.names(STATUS));
  });

  it('tell scanners the packages of Debian and its release, as dpkg would', () => {
    const iptables = bom(image).components.find(({ name }) => name === 'iptables');
    const fields = image.text(`${STATUS}/iptables`).split('\n');
    for (const field of [
      'Package: iptables',
      'Status: install ok installed',
      `Architecture: ${OWN}`,
      `Version: ${iptables?.version}`,
    ])
      assert.ok(fields.includes(field), field);
    assert.match(image.text('/etc/os-release'), /^ID=debian$/m);
  });

  it('have the licences of all that others have made, each once', () => {
    const text = image.text(LICENCES);
    for (const { name, version, purl } of bom(image).components)
      if (purl.startsWith('pkg:npm/')) assert.ok(text.includes(`\n${name} ${version}\n`), name);
      else assert.ok(image.text(`/usr/share/doc/${name}/copyright`).length > 0, name);
    for (const licence of ['Permission is hereby granted', 'Niels Martignène'])
      assert.ok(text.includes(licence), licence);
    assert.doesNotMatch(text, /GNU GENERAL PUBLIC LICENSE/);
    assert.match(image.text('/usr/share/common-licenses/GPL-2'), /GNU GENERAL PUBLIC LICENSE/);
  });

  it('are the same whoever builds them, and whenever', async () => {
    const identities = async () => {
      const images = await Promise.all([OWN, OTHER].map((architecture) => inspect(architecture)));
      return images.map(({ Id, RootFS }) => ({ Id, RootFS }));
    };
    const before = await identities();
    // One by one: a make that another make starts finds the Node.js of the project on its PATH.
    for (const architecture of [OWN, OTHER]) await get().make('077', 'container', `ARCH=${architecture}`);
    assert.deepEqual(await identities(), before);
  });

  it('are the same for both architectures, each with programs for its own', async () => {
    for (const dir of [...Object.keys(PROGRAMS), STATUS])
      assert.deepEqual(other.names(dir), image.names(dir));
    for (const [architecture, exported] of [
      [OWN, image],
      [OTHER, other],
    ] as const) {
      assert.equal((await inspect(architecture)).Architecture, architecture);
      const machines = exported.files
        .map((path) => exported.bytes(path))
        .filter((bytes) => bytes.subarray(0, ELF.length).equals(ELF))
        .map(machineOf);
      assert.ok(machines.length > 40, `${machines.length} programs and libraries`);
      assert.deepEqual([...new Set(machines)], [architecture]);
      const iptables = bom(exported).components.find(({ name }) => name === 'iptables');
      assert.ok(iptables?.purl.includes(`?arch=${architecture}&`), iptables?.purl);
    }
  });

  it('hold code that is compiled for the Node.js in them', async () => {
    for (const [exported, emulator] of [
      [image, []],
      [other, [EMULATORS[OTHER], '-L', other.path('/')]],
    ] as const) {
      const agent = exported.path('/usr/lib/ip-masq-agent/ip-masq-agent');
      const program = [exported.path('/usr/bin/node'), ...NODE_FLAGS, agent];
      const flags = ['--v=3', '--config-dir=/nowhere'];
      const [file, ...args] = [...emulator, ...program, ...flags];
      const { stderr } = await run({ file, args }, {});
      assert.match(stderr, /"starting ip-masq-agent/);
      assert.doesNotMatch(stderr, /started slower/);
    }
  });

  it('hold a native module that loads and calls C on the other architecture, where netlink is refused', async () => {
    const dir = JSON.stringify(dirname(other.path('/usr/lib/ip-masq-agent/koffi.node')));
    const { outputFiles } = await build({
      stdin: { contents: PROBE, resolveDir: fileURLToPath(new URL('../..', import.meta.url)) },
      bundle: true,
      write: false,
      platform: 'node',
      define: { BUNDLED: 'true', 'import.meta.dirname': dir },
    });
    const [bundle] = outputFiles;
    const args = ['-L', other.path('/'), other.path('/usr/bin/node'), '-'];
    const emulated = { file: EMULATORS[OTHER], args };
    const { PATH = '' } = process.env;
    const said = await succeed(run(emulated, { PATH }, { input: bundle?.text ?? '' }));
    assert.equal(said, 'unsupported EPROTONOSUPPORT\n');
  });

  it('are pushed under one name for all machines', async () => {
    const { docker, registry, version } = get();
    const name = `docker://${registry}/ip-masq-agent:${version}`;
    const { stdout, stderr } = await docker.node.run('skopeo', [
      'inspect',
      '--raw',
      '--tls-verify=false',
      name,
    ]);
    assert.equal(stderr, '');
    const { manifests } = JSON.parse(stdout) as {
      readonly manifests: readonly { readonly platform: { readonly architecture: string } }[];
    };
    assert.deepEqual(
      manifests.map(({ platform }) => platform.architecture),
      ['amd64', 'arm64'],
    );
  });
}
