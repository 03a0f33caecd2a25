/**
 * Builds the image for an architecture as an OCI image layout, bin/image/ARCH/oci: the layers of Debian, of Node.js and of the agent.
 * Usage: node build/image/stage.ts ARCH VERSION SECONDS LABEL=VALUE..., where SECONDS since the epoch are the time of the build.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { bundle } from '../bundle.ts';
import { imageEnvironment } from '../launch.ts';
import { nativeModule, nativePackage } from '../native-module.ts';
import { bundledPackages, type Component, type Lockfile, licencesText, npmComponent } from './components.ts';
import { writeLayout } from './oci.ts';
import { sbom } from './sbom.ts';

const ROOT = join(import.meta.dirname, '../..');

/** CPU names in Node.js's npm packages, by the names of Debian and Docker. */
const CPUS: Readonly<Record<string, string>> = { amd64: 'x64', arm64: 'arm64' };

const PROGRAMS = readFileSync(join(import.meta.dirname, 'programs.sha256'), 'utf8');

const LABELS = {
  title: 'ip-masq-agent',
  description: "Keeps a Kubernetes node's masquerade rules exactly as its mounted config files say",
  licenses: 'Apache-2.0',
};

/** Of the package qemu-user. */
const EMULATORS: Readonly<Record<string, string>> = { amd64: 'qemu-x86_64', arm64: 'qemu-aarch64' };

const [architecture = '', version = '', seconds = '', ...labels] = process.argv.slice(2);
const created = new Date(Number(seconds) * 1000).toISOString().replace('.000Z', 'Z');
const cpu = CPUS[architecture];
if (cpu === undefined || !/^\d+$/.test(seconds))
  throw new Error('usage: stage.ts amd64|arm64 VERSION SECONDS');

const context = join(ROOT, 'bin/image', architecture);
rmSync(context, { recursive: true, force: true });
/** Where Debian's packages are, which stay. */
const packages = join(ROOT, 'bin/debian', architecture);
script('fetch.sh', architecture, packages);

const node = `node_modules/node-linux-${cpu}`;
const prefix = nodePrefix(cpu);
copyFileSync(verified(`${node}/bin/node`), inLayer('node', 'usr/bin/node'));
const native = inLayer('node', 'usr/lib/ip-masq-agent/koffi.node');
copyFileSync(verified(nativeModule(cpu)), native);
chmodSync(native, 0o644);

const program = inLayer('agent', 'usr/lib/ip-masq-agent/ip-masq-agent');
const metafile = await bundle({
  version,
  file: program,
  interpreter: '/usr/bin/node',
  node: runnable(join(prefix, node, 'bin/node')),
});
symlinkSync('../lib/ip-masq-agent/ip-masq-agent', inLayer('agent', 'usr/bin/ip-masq-agent'));
copyFileSync(join(ROOT, 'LICENSE'), inLayer('agent', 'usr/share/doc/ip-masq-agent/LICENSE'));

const lockfile: Lockfile = json(join(ROOT, 'package-lock.json'));
const components = [
  ...bundledPackages(metafile).map((directory) => npmComponent(ROOT, directory, lockfile)),
  withLicence(npmComponent(prefix, nativePackage(cpu), lockfile), 'koffi-licence.txt'),
  withParts(npmComponent(prefix, node, lockfile)),
];
writeFileSync(inLayer('agent', 'usr/share/doc/ip-masq-agent/THIRD-PARTY-LICENCES'), licencesText(components));
const { license: licence } = json(join(ROOT, 'package.json'));
writeFileSync(
  inLayer('agent', 'usr/share/sbom/ip-masq-agent.cdx.json'),
  sbom({ version, licence, time: Number(seconds), architecture }, components),
);

script('layers.sh', architecture, context, packages, seconds);
printContent(packImage());

/** Packs the layers. Those that seldom change come first, so that a node pulls little for a new version of the agent. */
function packImage() {
  const layers = ['debian', 'node', 'agent'].map((name) => ({
    name,
    archive: archiveOf(join(context, 'layers', name)),
  }));
  const environment = Object.entries({ PATH: '/usr/sbin:/usr/bin', ...imageEnvironment() });
  const prefixed = {
    ...LABELS,
    version,
    created,
    ...Object.fromEntries(labels.map((label) => label.split(/=(.*)/s))),
  };
  const sizes = writeLayout(join(context, 'oci'), {
    tag: version,
    architecture,
    created,
    compression: process.env['COMPRESSION'] ?? 'gzip',
    layers: layers.map(({ archive }) => archive),
    config: {
      // Only root can change the kernel's rules. The capabilities NET_ADMIN and NET_RAW are enough.
      User: '0:0',
      Env: environment.map(([name, value]) => `${name}=${value}`),
      Entrypoint: ['/usr/bin/ip-masq-agent'],
      Labels: Object.fromEntries(
        Object.entries(prefixed).map(([name, value]) => [`org.opencontainers.image.${name}`, value]),
      ),
    },
  });
  return layers.map(({ name, archive }, index) => ({
    name,
    bytes: archive.length,
    pulled: sizes[index] ?? 0,
  }));
}

/** The directory as an archive that depends on its content alone. */
function archiveOf(directory: string): Buffer {
  const alike = ['--format=gnu', '--sort=name', '--owner=0', '--group=0', '--numeric-owner'];
  const args = ['--create', ...alike, '--directory', directory, '.'];
  return execFileSync('tar', args, { maxBuffer: 1 << 30 });
}

/** Prints the size of each layer as it is unpacked and as it is pulled, and Debian's packages. */
function printContent(layers: ReturnType<typeof packImage>): void {
  const total = (key: 'bytes' | 'pulled') => layers.reduce((sum, layer) => sum + layer[key], 0);
  for (const { name, bytes, pulled } of [
    ...layers,
    { name: 'all', bytes: total('bytes'), pulled: total('pulled') },
  ])
    console.log(`${name}: ${bytes} bytes, ${pulled} to pull`);
  console.log(readdirSync(packages).toSorted().join('\n'));
}

function script(name: string, ...args: readonly string[]): void {
  execFileSync('sh', [join(import.meta.dirname, name), ...args], { stdio: 'inherit' });
}

/** The path of a layer's file in the context. Creates its directory. */
function inLayer(layer: string, path: string): string {
  const file = join(context, 'layers', layer, path);
  mkdirSync(dirname(file), { recursive: true });
  return file;
}

/** The directory where the npm package of that Node.js is installed: npm skips packages for other machines. */
function nodePrefix(cpu: string): string {
  if (cpu === process.arch) return ROOT;
  const prefix = join(ROOT, 'bin/npm', cpu);
  // npm writes this file last.
  const installed = statSync(join(prefix, 'node_modules/.package-lock.json'), { throwIfNoEntry: false });
  if (installed !== undefined && installed.mtimeMs >= statSync(join(ROOT, 'package-lock.json')).mtimeMs)
    return prefix;
  mkdirSync(prefix, { recursive: true });
  for (const file of ['package.json', 'package-lock.json', '.npmrc'])
    copyFileSync(join(ROOT, file), join(prefix, file));
  const target = ['--os=linux', `--cpu=${cpu}`, '--libc=glibc'];
  const flags = ['--omit=dev', '--ignore-scripts', '--no-progress', '--loglevel=error'];
  execFileSync('npm', ['ci', ...target, ...flags], { cwd: prefix, stdio: ['ignore', 'ignore', 'inherit'] });
  if (existsSync(join(prefix, node))) return prefix;
  rmSync(prefix, { recursive: true });
  throw new Error(
    `npm could not get ${basename(node)}, and says nothing, because it is optional: see ~/.npm/_logs`,
  );
}

/**
 * The file of an npm package, if it is the one that the repository pins: npm's lockfile has the hash of what it downloaded, but not of
 * what is installed now.
 */
function verified(path: string): string {
  const file = join(prefix, path);
  const sum = createHash('sha256').update(readFileSync(file)).digest('hex');
  if (!PROGRAMS.includes(`${sum}  ${path}\n`))
    throw new Error(`${file} has not the sum in build/image/programs.sha256`);
  return file;
}

/** The component with the text of its licence, which is not in its package. */
function withLicence(component: Component, file: string): Component {
  return { ...component, licenceTexts: [readFileSync(join(import.meta.dirname, file), 'utf8')] };
}

/**
 * The command that runs that Node.js here. For another CPU it is QEMU's, with the C library of Debian for that CPU.
 *
 * @throws {Error} if QEMU is missing
 */
function runnable(file: string): readonly string[] {
  if (cpu === process.arch) return [file];
  const emulator = EMULATORS[architecture] ?? '';
  if (spawnSync(emulator, ['--version']).error !== undefined)
    throw new Error(
      `${emulator} is missing, which compiles the agent for ${architecture}: install qemu-user`,
    );
  const libraries = join(context, 'emulated');
  mkdirSync(join(libraries, 'usr/lib'), { recursive: true });
  for (const name of ['lib', 'lib64']) symlinkSync(`usr/${name}`, join(libraries, name));
  for (const name of readdirSync(packages).filter((one) => /^lib(?:c6|gcc-s1|stdc\+\+6)_.*\.deb$/.test(one)))
    execFileSync('dpkg-deb', ['--extract', join(packages, name), libraries]);
  return [emulator, '-L', libraries, file];
}

/** Node.js with its built-in parts, as listed by the Node.js that runs this build, which is the same release. */
function withParts(component: Component): Component {
  const { node: release, modules: _, napi: __, ...versions } = process.versions;
  if (release !== component.version)
    throw new Error(`the build runs with Node.js ${release}, but the image gets ${component.version}`);
  const parts = Object.entries(versions).flatMap(([name, version = '']) =>
    version === '' ? [] : [[name, version] as const],
  );
  const cpe = `cpe:2.3:a:nodejs:node.js:${release}:*:*:*:*:*:*:*`;
  return { ...component, cpe, parts: Object.fromEntries(parts) };
}

function json(path: string) {
  return JSON.parse(readFileSync(path, 'utf8'));
}
