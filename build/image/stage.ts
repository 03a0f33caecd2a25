/**
 * Makes the context of an image build, bin/image/ARCH: what the Debian stage cannot make itself.
 * Usage: node build/image/stage.ts ARCH VERSION SECONDS, where SECONDS since the epoch are the time of the build.
 */
import { execFileSync } from 'node:child_process';
import { copyFileSync, linkSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import type { Component } from './component.ts';
import { bundledPackages, type Lockfile, npmComponent } from './npm-components.ts';

/** What the Debian stage must know. */
export interface Recipe {
  /** As Debian and Docker name it. */
  readonly architecture: string;
  readonly version: string;
  readonly time: number;
  readonly licence: string;
  /** All that comes from npm, Node.js among it. */
  readonly components: readonly Component[];
}

type Order = Pick<Recipe, 'architecture' | 'version' | 'time'> & { readonly cpu: string };

/** The npm packages of Node.js say x64 for what Debian and Docker call amd64. */
const NPM_ARCHITECTURES: Readonly<Record<string, string>> = { amd64: 'x64', arm64: 'arm64' };

const ROOT = join(import.meta.dirname, '../..');

/** Versions of interfaces, not of anything that is built in. */
const NO_PARTS = ['node', 'modules', 'napi'];

async function stage({ architecture, cpu, version, time }: Order): Promise<void> {
  const dir = join(ROOT, 'bin/image', architecture);
  rmSync(dir, { recursive: true, force: true });
  mkdirSync(join(dir, 'agent'), { recursive: true });
  const binary = join(dir, 'agent/ip-masq-agent');
  execFileSync(process.execPath, [join(ROOT, 'build/bundle.ts'), version, binary, '/usr/bin/node']);
  const metafile = json(`${binary}.meta.json`);
  rmSync(`${binary}.meta.json`);

  const prefix = nodePrefix(architecture, cpu);
  copyFileSync(join(prefix, nodeDirectory(cpu), 'bin/node'), join(dir, 'node'));
  // It runs gather.ts, whatever it builds for. A link is sent to Docker as such, not as 126 MB more.
  if (cpu === process.arch) linkSync(join(dir, 'node'), join(dir, 'build-node'));
  else copyFileSync(process.execPath, join(dir, 'build-node'));

  const lockfile: Lockfile = json(join(ROOT, 'package-lock.json'));
  const bundled = bundledPackages(metafile);
  const components = [
    ...bundled.map((directory) => npmComponent(ROOT, directory, lockfile)),
    nodeComponent(prefix, cpu, lockfile),
  ];
  const { license: licence } = json(join(ROOT, 'package.json'));
  const recipe: Recipe = { architecture, version, time, licence, components };
  writeFileSync(join(dir, 'recipe.json'), JSON.stringify(recipe));
  copyFileSync(join(ROOT, 'LICENSE'), join(dir, 'LICENSE'));
  await build({
    entryPoints: [join(import.meta.dirname, 'gather.ts')],
    outfile: join(dir, 'gather.cjs'),
    bundle: true,
    platform: 'node',
    // What the CycloneDX library takes where it is there, for XML and for checking.
    external: [
      'ajv',
      'ajv-formats',
      'ajv-formats-draft2019',
      'libxmljs2',
      'spdx-expression-parse',
      'xmlbuilder2',
    ],
    logLevel: 'warning',
  });
}

function nodeDirectory(cpu: string): string {
  return `node_modules/node-linux-${cpu}`;
}

/** Where the npm package of that Node.js is installed: npm leaves out what is for other machines than its own. */
function nodePrefix(architecture: string, cpu: string): string {
  if (cpu === process.arch) return ROOT;
  const prefix = join(ROOT, 'bin/npm', architecture);
  if (isInstalled(prefix)) return prefix;
  mkdirSync(prefix, { recursive: true });
  for (const file of ['package.json', 'package-lock.json', '.npmrc'])
    copyFileSync(join(ROOT, file), join(prefix, file));
  const target = ['--os=linux', `--cpu=${cpu}`, '--libc=glibc'];
  const flags = ['--omit=dev', '--ignore-scripts', '--no-progress', '--loglevel=error'];
  execFileSync('npm', ['ci', ...target, ...flags], { cwd: prefix, stdio: ['ignore', 'ignore', 'inherit'] });
  return prefix;
}

/** Whether npm has installed there what the lockfile says now; it writes this file of its own last. */
function isInstalled(prefix: string): boolean {
  const written = (path: string) => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return written(join(prefix, 'node_modules/.package-lock.json')) >= written(join(ROOT, 'package-lock.json'));
}

function nodeComponent(prefix: string, cpu: string, lockfile: Lockfile): Component {
  const component = npmComponent(prefix, nodeDirectory(cpu), lockfile);
  if (process.version !== `v${component.version}`)
    throw new Error(
      `the build runs with Node.js ${process.version}, but the image gets ${component.version}`,
    );
  return {
    ...component,
    cpe: `cpe:2.3:a:nodejs:node.js:${component.version}:*:*:*:*:*:*:*`,
    holds: partsOf(process.versions),
  };
}

/** What is built into Node.js, by its own account: versions by name. What it names without a version is left out of it. */
export function partsOf(
  versions: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string>> {
  const parts = Object.entries(versions).flatMap(([name, version = '']) =>
    version === '' || NO_PARTS.includes(name) ? [] : [[name, version] as const],
  );
  return Object.fromEntries(parts);
}

function json(path: string) {
  return JSON.parse(readFileSync(path, 'utf8'));
}

if (import.meta.main) {
  const [architecture = '', version = 'unknown', seconds = ''] = process.argv.slice(2);
  const cpu = NPM_ARCHITECTURES[architecture];
  if (cpu === undefined || !/^\d+$/.test(seconds))
    throw new Error('usage: stage.ts amd64|arm64 VERSION SECONDS');
  await stage({ architecture, cpu, version, time: Number(seconds) });
}
