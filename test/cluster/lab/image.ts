/** Run as a program, it builds the agent's image where it is not there yet, and prints its name. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { imageVariables, makeCommandIn, OWN, ROOT } from '../../image/make.ts';
import { run, succeed } from '../../lab/run.ts';
import { toolEnvironment } from '../local/environment.ts';

/** An image of the agent as an archive that `ctr images import` and `kind load image-archive` read. */
export interface AgentImage {
  readonly name: string;
  readonly archive: string;
}

const IMAGES = join(ROOT, 'bin/cluster/images');
const MINUTES_MS = 600_000;

/** What decides about the content of the image. */
const IMAGE_INPUTS = [
  'Dockerfile.in',
  'build',
  'cmd',
  'lib',
  'schemas',
  'LICENSE',
  'Makefile',
  'package-lock.json',
  'package.json',
];

/** Builds the image, once for each state of the files that it is made of. */
export async function agentImage(): Promise<AgentImage> {
  const version = await stateOf([...IMAGE_INPUTS, 'test/cluster/lab/image.ts']);
  return builtImage(version) ?? (await buildImage(ROOT, version));
}

/**
 * Builds the image of a tree as `make container` does.
 *
 * @param variables more of them, for make
 */
export async function buildImage(
  tree: string,
  version: string,
  ...variables: readonly string[]
): Promise<AgentImage> {
  const image = imageOf(version);
  const env = toolEnvironment(process.env);
  const words = ['container', `VERSION=${version}`, ...(await imageVariables(env)), ...variables];
  await succeed(run(makeCommandIn(tree, '022', ...words), env, { timeoutMs: MINUTES_MS }));
  await mkdir(IMAGES, { recursive: true });
  await rm(`${image.archive}.tmp`, { force: true });
  const to = `docker-archive:${image.archive}.tmp:${image.name}`;
  const args = ['push', '--quiet', `localhost/ip-masq-agent-${OWN}:${version}`, to];
  await succeed(run({ file: 'buildah', args }, env, { timeoutMs: MINUTES_MS }));
  await rename(`${image.archive}.tmp`, image.archive);
  return image;
}

/** The image of that version, if it is built already. */
export function builtImage(version: string): AgentImage | undefined {
  const image = imageOf(version);
  return existsSync(image.archive) ? image : undefined;
}

function imageOf(version: string): AgentImage {
  const archive = join(IMAGES, `ip-masq-agent-${version}.tar`);
  return { name: `localhost/ip-masq-agent:${version}`, archive };
}

/** A version that changes with the content of these files and directories. */
async function stateOf(inputs: readonly string[]): Promise<string> {
  const hash = createHash('sha256');
  for (const file of await filesOf(inputs)) hash.update(`${file}\0`).update(await readFile(join(ROOT, file)));
  return `test-${hash.digest('hex').slice(0, 12)}`;
}

async function filesOf(inputs: readonly string[]): Promise<readonly string[]> {
  const found = await Promise.all(
    inputs.map(async (input) => {
      const entries = await readdir(join(ROOT, input), { recursive: true, withFileTypes: true }).catch(
        () => [],
      );
      const files = entries.filter((entry) => entry.isFile() && !entry.name.includes('.generated.'));
      return entries.length === 0
        ? [input]
        : files.map((entry) => join(entry.parentPath, entry.name).slice(ROOT.length));
    }),
  );
  return found.flat().toSorted();
}

if (import.meta.main) console.log((await agentImage()).name);
