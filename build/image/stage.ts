/**
 * Lays out the context of an image build, bin/image/ARCH: the layers of Node.js and of the agent, and the scripts that
 * run in the Debian stage.
 * Usage: node build/image/stage.ts ARCH VERSION SECONDS BASE_IMAGE, where SECONDS since the epoch are the time of the build.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { bundle } from '../bundle.ts';
import { dockerfile } from '../launch.ts';
import { nativeModule, nativePackage } from '../native-module.ts';
import { bundledPackages, type Component, type Lockfile, licencesText, npmComponent } from './components.ts';
import { sbom } from './sbom.ts';

const ROOT = join(import.meta.dirname, '../..');

/** CPU names in Node.js's npm packages, by the names of Debian and Docker. */
const CPUS: Readonly<Record<string, string>> = { amd64: 'x64', arm64: 'arm64' };

/** Of the package qemu-user. */
const EMULATORS: Readonly<Record<string, string>> = { amd64: 'qemu-x86_64', arm64: 'qemu-aarch64' };

const [architecture = '', version = '', seconds = '', baseImage = ''] = process.argv.slice(2);
const cpu = CPUS[architecture];
if (cpu === undefined || !/^\d+$/.test(seconds))
  throw new Error('usage: stage.ts amd64|arm64 VERSION SECONDS BASE_IMAGE');

const context = join(ROOT, 'bin/image', architecture);
rmSync(context, { recursive: true, force: true });

const node = `node_modules/node-linux-${cpu}`;
const prefix = nodePrefix(cpu);
copyFileSync(join(prefix, node, 'bin/node'), inLayer('node', 'usr/bin/node'));
const native = inLayer('node', 'usr/lib/ip-masq-agent/koffi.node');
copyFileSync(join(prefix, nativeModule(cpu)), native);
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
  sbom({ version, licence, time: Number(seconds), baseImage }, components),
);

writeFileSync(join(context, 'Dockerfile'), dockerfile(readFileSync(join(ROOT, 'Dockerfile.in'), 'utf8')));
for (const script of ['fetch.sh', 'layers.sh'])
  copyFileSync(join(import.meta.dirname, script), join(context, script));

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
  const libraries = join(prefix, 'debian');
  if (!existsSync(libraries)) {
    const packages = join(prefix, 'packages');
    const fetch = join(import.meta.dirname, 'fetch.sh');
    execFileSync('sh', [fetch, architecture, packages, 'libstdc++6'], { stdio: 'inherit' });
    for (const name of readdirSync(packages).filter((one) => one.endsWith('.deb')))
      execFileSync('dpkg-deb', ['--extract', join(packages, name), `${libraries}.tmp`]);
    rmSync(packages, { recursive: true });
    renameSync(`${libraries}.tmp`, libraries);
  }
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
