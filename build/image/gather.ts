/**
 * Runs in the Debian stage of the image build: lays out in /image what the image holds, a directory for each layer. The
 * context of the build, which stage.ts makes, is in the directory of this script.
 */
import {
  chmodSync,
  copyFileSync,
  existsSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { PackageURL } from 'packageurl-js';
import type { Component } from './component.ts';
import { keptPath, LINKS, MERGED, WANTED } from './contents.ts';
import { type DebianPackage, parseStatus, withDependencies } from './debian.ts';
import { commonLicences, licencesText } from './licences.ts';
import { debianRoot, filesOf, readStatus } from './packages.ts';
import { sbom } from './sbom.ts';
import type { Recipe } from './stage.ts';

const CONTEXT = '/build';
const IMAGE = '/image';

const recipe: Recipe = JSON.parse(readFileSync(join(CONTEXT, 'recipe.json'), 'utf8'));
const [baseImage = 'unknown'] = process.argv.slice(2);
const root = debianRoot(recipe.architecture, WANTED, join(CONTEXT, 'debian'));
const packages = withDependencies(parseStatus(readStatus(root)), WANTED);
const components = [...recipe.components, ...packages.map(debianComponent)];

// The same packages make the same layer in each release, so that a node that has it does not pull it again.
layer('system', 0, (dir) => {
  for (const top of MERGED) link(dir, `/${top}`, `usr/${top}`);
  for (const one of packages) addPackage(dir, one);
  for (const [path, target] of Object.entries(LINKS)) link(dir, path, target);
  const user = 'root:x:0:0:root:/:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n';
  write(dir, '/etc/passwd', user);
  write(dir, '/etc/group', 'root:x:0:\nnogroup:x:65534:\n');
  write(dir, '/etc/nsswitch.conf', 'hosts: files dns\nprotocols: files\nservices: files\n');
  write(dir, '/usr/lib/os-release', readFileSync('/usr/lib/os-release', 'utf8'));
  link(dir, '/etc/os-release', '../usr/lib/os-release');
  // For the lock. No /etc/config: where nobody has mounted a volume the agent is to say so, and not to find no source.
  mkdirSync(join(dir, '/run'), { recursive: true });
});
layer('node', 0, (dir) => copy(join(CONTEXT, 'node'), dir, '/usr/bin/node', 0o755));
layer('agent', recipe.time, (dir) => {
  const home = '/usr/lib/ip-masq-agent';
  for (const file of readdirSync(join(CONTEXT, 'agent')))
    copy(join(CONTEXT, 'agent', file), dir, `${home}/${file}`);
  link(dir, '/usr/bin/ip-masq-agent', '../lib/ip-masq-agent/ip-masq-agent');
  const doc = '/usr/share/doc/ip-masq-agent';
  copy(join(CONTEXT, 'LICENSE'), dir, `${doc}/LICENSE`);
  const common = Object.fromEntries(
    commonLicences(components).map((path) => [path, readFileSync(path, 'utf8')]),
  );
  write(dir, `${doc}/THIRD-PARTY-LICENCES`, licencesText(components, common));
  const { version, time } = recipe;
  const subject = { version, time, licence: recipe.licence, properties: { baseImage } };
  write(dir, '/usr/share/sbom/ip-masq-agent.cdx.json', sbom(subject, components));
});

function debianComponent({ name, version, architecture }: DebianPackage): Component {
  const release = /^VERSION_ID="?([^"\n]*)/m.exec(readFileSync('/usr/lib/os-release', 'utf8'))?.[1];
  const qualifiers = { arch: architecture, distro: `debian-${release ?? 'unknown'}` };
  return {
    name,
    version,
    purl: new PackageURL('deb', 'debian', name, version, qualifiers).toString(),
    licence: undefined,
    licenceTexts: [copyright(name)],
  };
}

function copyright(name: string): string {
  return readFileSync(join(root, 'usr/share/doc', name, 'copyright'), 'utf8');
}

/** Its files, its licence, and the paragraph by which scanners know it where there is no dpkg. */
function addPackage(dir: string, one: DebianPackage): void {
  for (const path of filesOf(root, one)) {
    const kept = keptPath(path);
    if (kept !== undefined) copy(join(root, path), dir, kept);
  }
  write(dir, `/usr/share/doc/${one.name}/copyright`, copyright(one.name));
  write(dir, `/var/lib/dpkg/status.d/${one.name}`, `${one.paragraph.trim()}\n`);
}

function layer(name: string, time: number, fill: (dir: string) => void): void {
  const dir = join(IMAGE, name);
  fill(dir);
  date(dir, time);
}

/** A link stays a link. Nothing gets more rights than everybody's to read and run it. */
function copy(from: string, dir: string, to: string, mode?: number): void {
  const target = make(dir, to);
  const stat = lstatSync(from);
  if (stat.isSymbolicLink()) {
    symlinkSync(readlinkSync(from), target);
    return;
  }
  copyFileSync(from, target);
  chmodSync(target, mode ?? ((stat.mode & 0o111) === 0 ? 0o644 : 0o755));
}

function write(dir: string, path: string, content: string): void {
  writeFileSync(make(dir, path), content, { mode: 0o644 });
}

function link(dir: string, path: string, target: string): void {
  symlinkSync(target, make(dir, path));
}

function make(dir: string, path: string): string {
  const target = join(dir, path);
  mkdirSync(dirname(target), { recursive: true, mode: 0o755 });
  if (existsSync(target)) throw new Error(`the image would hold ${path} twice`);
  return target;
}

function date(path: string, time: number): void {
  if (lstatSync(path).isDirectory()) for (const name of readdirSync(path)) date(join(path, name), time);
  lutimesSync(path, time, time);
}
