/** Gets hold of Debian's packages: those of the image that this runs in, or, of another architecture, from its archive. */
import { execFileSync } from 'node:child_process';
import { appendFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DebianPackage } from './debian.ts';

const DATABASE = 'var/lib/dpkg';

/**
 * The root of a Debian that holds the packages, and a database of dpkg that tells their files. It is that of this
 * system, where the architecture is its own; what is missing is installed then. Programs of another architecture cannot
 * run here: their packages are only unpacked, below the scratch directory.
 */
export function debianRoot(architecture: string, names: readonly string[], scratch: string): string {
  if (architecture !== run('dpkg', ['--print-architecture']).toString().trim())
    return unpacked(architecture, names, scratch);
  if (!succeeds(() => run('dpkg', ['--status', ...names]))) aptInstall([], names);
  return '/';
}

export function readStatus(root: string): string {
  return readFileSync(join(root, DATABASE, 'status'), 'utf8');
}

/** The paths of all that a package has unpacked, directories among them, as the package names them. */
export function filesOf(root: string, { name, architecture }: DebianPackage): readonly string[] {
  const lists = join(root, DATABASE, 'info');
  const file = [`${name}.list`, `${name}:${architecture}.list`].find((file) =>
    readdirSync(lists).includes(file),
  );
  if (file === undefined) throw new Error(`dpkg does not tell the files of ${name}`);
  return readFileSync(join(lists, file), 'utf8').split('\n').filter(Boolean);
}

/** With no package installed, apt finds all that the packages depend on, and nothing else. */
function unpacked(architecture: string, names: readonly string[], scratch: string): string {
  const root = join(scratch, 'root');
  mkdirSync(join(root, DATABASE, 'info'), { recursive: true });
  const status = join(scratch, 'status');
  writeFileSync(status, '');
  const options = {
    'Dir::State::status': status,
    'APT::Architecture': architecture,
    'APT::Architectures::': architecture,
  };
  const flags = Object.entries(options).map(([name, value]) => `-o${name}=${value}`);
  aptInstall([...flags, '--download-only'], names);
  const archives = '/var/cache/apt/archives';
  const fits = (file: string) => file.endsWith(`_${architecture}.deb`) || file.endsWith('_all.deb');
  for (const file of readdirSync(archives).filter(fits)) unpack(join(archives, file), root);
  return root;
}

/** Asks the archive only where what the image has at hand does not do. */
function aptInstall(flags: readonly string[], names: readonly string[]): void {
  const install = () =>
    run('apt-get', ['-qq', 'install', '--yes', '--no-install-recommends', ...flags, ...names]);
  if (succeeds(install)) return;
  run('apt-get', ['-qq', 'update', ...flags.filter((flag) => flag.startsWith('-o'))]);
  install();
}

/** Unpacks a package, and writes down in a database what dpkg would: its own unpacking runs scripts of the package. */
function unpack(file: string, root: string): void {
  run('dpkg-deb', ['--extract', file, root]);
  const paragraph = run('dpkg-deb', ['--field', file]).toString().trim();
  appendFileSync(join(root, DATABASE, 'status'), `${paragraph}\nStatus: install ok unpacked\n\n`);
  const name = run('dpkg-deb', ['--field', file, 'Package']).toString().trim();
  const paths = run('tar', ['--list'], run('dpkg-deb', ['--fsys-tarfile', file])).toString();
  writeFileSync(
    join(root, DATABASE, 'info', `${name}.list`),
    paths.replaceAll(/^\.?(\/.*?)\/?$/gm, '$1').replace(/^\n/, ''),
  );
}

function run(file: string, args: readonly string[], input: Buffer | string = ''): Buffer {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C' };
  return execFileSync(file, args, { input, env, maxBuffer: 1 << 28, stdio: 'pipe' });
}

function succeeds(action: () => unknown): boolean {
  try {
    action();
    return true;
  } catch {
    return false;
  }
}
