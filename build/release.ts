/**
 * Writes what people install to bin/release/VERSION, after `make manifest` has pushed the images: the manifest for kubectl
 * with the image's digest, the Helm chart, alerts, dashboard, the plugin of kubectl, an archive with the command for each
 * architecture, which vulnerabilities of Node.js do not affect the agent, checksums.
 * Usage: node build/release.ts VERSION IMAGE DIGEST SECONDS ARCH..., where IMAGE has no tag, and SECONDS since the epoch are the time
 * of the build.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join, relative } from 'node:path';
import { gzipSync } from 'node:zlib';
import { bundle } from './bundle.ts';
import { installManifest } from './install-manifest.ts';
import { launcherScript } from './launch.ts';
import { vulnerabilityReport } from './openvex.ts';

const ROOT = join(import.meta.dirname, '..');
const EXAMPLES = join(ROOT, 'examples');

const [version = '', image = '', digest = '', seconds = '', ...architectures] = process.argv.slice(2);
if (!/^sha256:[0-9a-f]{64}$/.test(digest) || !/^\d+$/.test(seconds))
  throw new Error('usage: release.ts VERSION IMAGE sha256:… SECONDS ARCH…');

const releases = join(ROOT, 'bin/release');
const target = join(releases, version);
// Renamed at the end: what is in the target is complete.
const dir = `${target}.tmp`;
const work = `${target}.work`;
for (const path of [dir, work]) {
  rmSync(path, { recursive: true, force: true });
  mkdirSync(path, { recursive: true });
}
try {
  writeFileSync(join(dir, 'install.yaml'), installManifest(version, `${image}@${digest}`));
  writeChart();
  writeFileSync(join(dir, 'images.txt'), `${image}:${version}@${digest}\n`);
  copyFileSync(join(EXAMPLES, 'prometheus/rules.yaml'), join(dir, 'prometheus-rules.yaml'));
  copyFileSync(join(EXAMPLES, 'grafana/ip-masq-agent.json'), join(dir, 'grafana-dashboard.json'));
  await writePlugin('kubectl-ip_masq');
  writeFileSync(join(dir, 'ip-masq-agent.openvex.json'), vulnerabilityReport(Number(seconds)));
  for (const architecture of architectures) writeArchive(architecture);
  const sums = readdirSync(dir)
    .toSorted()
    .map((name) => `${sha256(join(dir, name))}  ${name}\n`);
  writeFileSync(join(dir, 'SHA256SUMS'), sums.join(''));
  for (const name of readdirSync(dir)) chmodSync(join(dir, name), 0o644);
  rmSync(target, { recursive: true, force: true });
  renameSync(dir, target);
} finally {
  for (const path of [dir, work]) rmSync(path, { recursive: true, force: true });
}
console.log(relative(process.cwd(), target));

/** The command as one file for the Node.js of an operator's machine. */
async function writePlugin(name: string): Promise<void> {
  const file = join(work, name);
  await bundle({ version, file, interpreter: '/usr/bin/env node', oldest: 'node20' });
  copyFileSync(file, join(dir, name));
}

/** Packs the command, its Node.js, licences and bill of materials as the image has them, so that only the version decides the bytes. */
function writeArchive(architecture: string): void {
  const name = `ip-masq-agent-${version}-linux-${architecture}`;
  const tree = join(work, name);
  const [node, agent] = ['node', 'agent'].map((layer) => join(ROOT, 'bin/image', architecture, layer, 'usr'));
  for (const [from, to] of [
    [`${node}/bin/node`, 'lib/ip-masq-agent/node'],
    [`${node}/lib`, 'lib'],
    [`${agent}/lib`, 'lib'],
    [`${node}/share`, 'share'],
    [`${agent}/share`, 'share'],
  ] as const)
    cpSync(from, join(tree, to), { recursive: true });
  mkdirSync(join(tree, 'bin'));
  writeFileSync(join(tree, 'bin/ip-masq-agent'), launcherScript());
  chmodSync(join(tree, 'bin/ip-masq-agent'), 0o755);
  pack(name, `${name}.tar.gz`);
}

/** The Helm chart with the image by its digest, as `helm package` packs it. */
function writeChart(): void {
  const name = 'ip-masq-agent';
  const number = version.slice(1);
  cpSync(join(EXAMPLES, 'helm', name), join(work, name), { recursive: true });
  edit(join(work, name, 'Chart.yaml'), { version: number, appVersion: version });
  edit(join(work, name, 'values.yaml'), { '  repository': image, '  digest': digest });
  pack(name, `${name}-${number}.tgz`);
}

/** Writes other values to lines of a YAML file. */
function edit(file: string, values: Readonly<Record<string, string>>): void {
  const text = Object.entries(values).reduce(
    (edited, [key, value]) => edited.replace(new RegExp(`^${key}: \\S+`, 'm'), `${key}: ${value}`),
    readFileSync(file, 'utf8'),
  );
  writeFileSync(file, text);
}

/** Packs a directory of the work into a file of the release, and removes it. */
function pack(name: string, file: string): void {
  const archive = join(work, `${name}.tar`);
  const alike = ['--sort=name', '--format=ustar', '--owner=0', '--group=0', '--numeric-owner'];
  const modes = ['--mode=a=rX,u+w', `--mtime=@${seconds}`];
  execFileSync('tar', [...alike, ...modes, '-c', '-f', archive, '-C', work, name]);
  writeFileSync(join(dir, file), gzipSync(readFileSync(archive)));
  for (const path of [join(work, name), archive]) rmSync(path, { recursive: true });
}

function sha256(file: string): string {
  return createHash('sha256').update(readFileSync(file)).digest('hex');
}
