import assert from 'node:assert/strict';
import { lstatSync, readFileSync } from 'node:fs';
import { after, before, it } from 'node:test';
import { ENVIRONMENT, NODE_FLAGS } from '../../build/launch.ts';
import { cycloneDxErrors } from './cyclonedx.ts';
import { type ExportedImage, exportImage } from './exported.ts';
import { type ImageLab, OTHER, OWN } from './support.ts';

/** The layers from the first to the last, and the most that each may take, uncompressed: what it took once, and 10 %. */
const BUDGETS: readonly (readonly [string, Readonly<Record<string, number>>])[] = [
  ['Debian', { amd64: 13_000_000, arm64: 18_000_000 }],
  ['Node.js', { amd64: 139_000_000, arm64: 136_000_000 }],
  ['the agent', { amd64: 1_830_000, arm64: 1_830_000 }],
];

const ELF = Buffer.from('\x7fELF');
/** `e_machine` of elf(5): where it is, and what it says. */
const MACHINE = { offset: 18, amd64: 62, arm64: 183 };

const IPTABLES = ['iptables', 'ip6tables'].flatMap((command) =>
  ['', '-nft', '-legacy'].flatMap((mode) =>
    ['', '-restore', '-save'].map((suffix) => `${command}${mode}${suffix}`),
  ),
);
const PROGRAMS = {
  '/usr/bin': ['ip-masq-agent', 'node'],
  '/usr/sbin': [...IPTABLES, 'nft', 'xtables-legacy-multi', 'xtables-nft-multi'].toSorted(),
};

const SBOM = '/usr/share/sbom/ip-masq-agent.cdx.json';

/** All files of an image match one of these, and each of these has a file. */
const FILES = [
  /^\/usr\/s?bin\/[^/]+$/,
  /^\/usr\/lib(?:64)?\/(?:[^/]+-linux-gnu\/)?[^/]+\.so(?:\.\d+)*$/,
  /^\/usr\/lib\/[^/]+-linux-gnu\/xtables\/lib(?:xt|ipt|ip6t)_\w+\.so$/,
  /^\/usr\/lib\/ip-masq-agent\/ip-masq-agent$/,
  /^\/usr\/lib\/ip-masq-agent\/package\.json$/,
  /^\/usr\/lib\/os-release$/,
  /^\/etc\/group$/,
  /^\/etc\/nsswitch\.conf$/,
  /^\/etc\/passwd$/,
  /^\/etc\/protocols$/,
  /^\/etc\/services$/,
  /^\/usr\/share\/doc\/[^/]+\/copyright$/,
  /^\/usr\/share\/doc\/ip-masq-agent\/LICENSE$/,
  /^\/usr\/share\/doc\/ip-masq-agent\/THIRD-PARTY-LICENCES$/,
  /^\/usr\/share\/sbom\/ip-masq-agent\.cdx\.json$/,
  /^\/var\/lib\/dpkg\/status\.d\/[^/]+$/,
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

  const inspect = async (format: string, architecture: string = OWN) =>
    JSON.parse(
      await get().docker.must(
        'image',
        'inspect',
        '--format',
        `{{json ${format}}}`,
        get().image(architecture),
      ),
    );
  const bom = (of: ExportedImage) => of.json(SBOM) as Bom;

  for (const architecture of [OWN, OTHER])
    it(`of ${architecture} are three layers, each within its budget`, async (t) => {
      const format = ['--no-trunc', '--human=false', '--format={{.Size}}'];
      const history = await get().docker.must('history', ...format, get().image(architecture));
      // The last layer is first, and what is no layer has no bytes.
      const sizes = history.split('\n').map(Number).filter(Boolean).toReversed();
      t.diagnostic(sizes.join(' '));
      assert.equal(sizes.length, BUDGETS.length);
      for (const [index, [name, budget]] of BUDGETS.entries())
        assert.ok((sizes[index] ?? 0) <= (budget[architecture] ?? 0), name);
    });

  it('hold what they are to hold and nothing else', () => {
    for (const { files, all } of [image, other]) {
      assert.deepEqual(
        files.filter((path) => !FILES.some((pattern) => pattern.test(path))),
        [],
      );
      assert.deepEqual(
        FILES.filter((pattern) => !files.some((path) => pattern.test(path))),
        [],
      );
      // kubelet mounts the lock of the node here.
      assert.ok(all.includes('/run'));
      // If no volume is mounted the agent must say so, not find an empty directory.
      assert.ok(!all.includes('/etc/config'));
    }
    assert.match(image.text('/etc/passwd'), /^root:x:0:0:/);
    assert.match(image.text('/etc/group'), /^root:x:0:/);
  });

  it('are the agent, Node.js, and the commands of iptables and nftables: no shell, npm or apt', () => {
    for (const [dir, programs] of Object.entries(PROGRAMS)) assert.deepEqual(image.names(dir), programs);
    const executable = image.files.filter(
      (path) => (lstatSync(image.path(path)).mode & 0o111) !== 0 && !/\.so[.\d]*$/.test(path),
    );
    assert.deepEqual(executable, [
      '/usr/bin/node',
      '/usr/lib/ip-masq-agent/ip-masq-agent',
      '/usr/sbin/nft',
      '/usr/sbin/xtables-legacy-multi',
      '/usr/sbin/xtables-nft-multi',
    ]);
    const scripts = image.files.filter((path) => image.head(path, 2).toString() === '#!');
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

  it('hold Node.js as its package has it', () => {
    assert.ok(readFileSync(process.execPath).equals(readFileSync(image.path('/usr/bin/node'))));
  });

  it('tell by annotations what they are, and start the agent without a shell', async () => {
    const { Labels: labels, ...config } = await inspect('.Config');
    const { created, licenses, revision, source: _, title, version, ...rest } = withoutPrefix(labels);
    assert.deepEqual(
      { licenses, title, version, others: Object.keys(rest) },
      {
        licenses: 'Apache-2.0',
        title: 'ip-masq-agent',
        version: get().version,
        others: ['description'],
      },
    );
    assert.match(revision ?? '', /^[0-9a-f]{40}$/);
    assert.match(created ?? '', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    assert.equal(await inspect('.Created'), created);
    assert.deepEqual(
      { entrypoint: config.Entrypoint, user: config.User, environment: config.Env },
      {
        entrypoint: ['/usr/bin/ip-masq-agent'],
        user: '0:0',
        environment: Object.entries({
          PATH: '/usr/sbin:/usr/bin',
          NODE_OPTIONS: NODE_FLAGS.join(' '),
          ...ENVIRONMENT,
        }).map(([name, value]) => `${name}=${value}`),
      },
    );
  });

  it('have a valid bill of materials, which names what npm, Node.js and Debian have part in', () => {
    const { metadata, components } = bom(image);
    assert.deepEqual(cycloneDxErrors(image.json(SBOM)), []);
    assert.equal(metadata.component.version, get().version);
    for (const { name, version } of components.flatMap((one) => [one, ...(one.components ?? [])]))
      assert.ok(version, name);
    const purls = components.map(({ purl }) => purl);
    const { version } = JSON.parse(
      readFileSync(new URL('../../node_modules/pino/package.json', import.meta.url), 'utf8'),
    );
    for (const purl of [
      `pkg:npm/pino@${version}`,
      `pkg:npm/node-linux-${process.arch}@${process.version.slice(1)}`,
    ])
      assert.ok(purls.includes(purl), purl);
    const node = components.find(({ name }) => name.startsWith('node-linux-'));
    assert.ok(node?.components?.some(({ name }) => name === 'openssl'));
    // Only for tests and builds.
    assert.ok(!purls.some((purl) => /esbuild|typescript|cyclonedx/.test(purl)));
    assert.deepEqual(
      components
        .filter(({ purl }) => purl.startsWith('pkg:deb/'))
        .map(({ name }) => name)
        .toSorted(),
      image.names('/var/lib/dpkg/status.d'),
    );
  });

  it('tell scanners the packages of Debian and its release, as dpkg would', () => {
    const { version } = bom(image).components.find(({ name }) => name === 'iptables') ?? {};
    const status = image.text('/var/lib/dpkg/status.d/iptables').split('\n');
    for (const field of [
      'Package: iptables',
      'Status: install ok installed',
      `Architecture: ${OWN}`,
      `Version: ${version}`,
    ])
      assert.ok(status.includes(field), field);
    assert.match(image.text('/etc/os-release'), /^ID=debian$/m);
  });

  it('have the licences of all that others have made', () => {
    const text = image.text('/usr/share/doc/ip-masq-agent/THIRD-PARTY-LICENCES');
    for (const { name, version } of bom(image).components)
      assert.ok(text.includes(`\n${name} ${version}\n`), name);
    for (const licence of ['GNU GENERAL PUBLIC LICENSE', 'Permission is hereby granted, free of charge'])
      assert.ok(text.includes(licence), licence);
  });

  it('are the same whoever builds them, with what builder, and whenever', async (t) => {
    const identities = async () =>
      await Promise.all(
        [OWN, OTHER].map((one) =>
          get().docker.must('inspect', '--format={{.Id}} {{.RootFS.Layers}}', get().image(one)),
        ),
      );
    const before = await identities();
    const { code, stderr } = await get().docker.runWith({ DOCKER_BUILDKIT: '1' }, 'build', '--help');
    const buildKit = code === 0 && !/buildx/.test(stderr);
    if (!buildKit) t.diagnostic('this docker has no BuildKit: built twice with the classic builder');
    // One by one: a make that another make starts finds the Node.js of the project on its PATH.
    for (const one of [OWN, OTHER]) await get().make({ buildKit, umask: '077' }, 'container', `ARCH=${one}`);
    assert.deepEqual(await identities(), before);
  });

  it('are the same for both architectures, each with programs for its own', async () => {
    for (const architecture of [OWN, OTHER])
      assert.equal(await inspect('.Architecture', architecture), architecture);
    for (const [dir, programs] of Object.entries(PROGRAMS)) assert.deepEqual(other.names(dir), programs);
    const packages = '/var/lib/dpkg/status.d';
    assert.deepEqual(other.names(packages), image.names(packages));
    for (const [architecture, exported] of [
      [OWN, image],
      [OTHER, other],
    ] as const) {
      const machines = exported.files
        .map((path) => exported.head(path, 20))
        .filter((head) => head.subarray(0, 4).equals(ELF))
        .map((head) => head.readUInt16LE(MACHINE.offset));
      assert.ok(machines.length > 100, `${machines.length} programs and libraries`);
      assert.deepEqual([...new Set(machines)], [MACHINE[architecture]]);
    }
    assert.deepEqual(cycloneDxErrors(other.json(SBOM)), []);
    const iptables = bom(other).components.find(({ name }) => name === 'iptables');
    assert.ok(iptables?.purl.includes(`?arch=${OTHER}&`), iptables?.purl);
  });

  it('are pushed under one name for all machines', async () => {
    const { node } = get().docker;
    const url = `http://${get().registry}/v2/ip-masq-agent/manifests/${get().version}`;
    const accept = 'application/vnd.docker.distribution.manifest.list.v2+json';
    const script = `console.log(await (await fetch('${url}', { headers: { accept: '${accept}' } })).text())`;
    const { stdout, stderr } = await node.run(process.execPath, ['--input-type=module', '--eval', script]);
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

function withoutPrefix(labels: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(labels).map(([name, value]) => [name.replace('org.opencontainers.image.', ''), value]),
  );
}
