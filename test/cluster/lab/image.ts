/** Run as a program, it builds the agent's image where it is not there yet, and prints its name. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { type Docker, startDocker } from '../../image/docker.ts';
import { importBase, makeCommandIn, ROOT } from '../../image/make.ts';
import { OWN } from '../../image/support.ts';
import { run, succeed } from '../../lab/run.ts';

/** An image of the agent as an archive that `ctr images import` and `kind load image-archive` read. */
export interface AgentImage {
  readonly name: string;
  readonly archive: string;
}

const IMAGES = join(ROOT, 'bin/cluster/images');
const MINUTES_MS = 600_000;

/** What decides about the content of the image. */
export const IMAGE_INPUTS = [
  'build',
  'cmd',
  'lib',
  'schemas',
  'Dockerfile.in',
  'LICENSE',
  'Makefile',
  'package-lock.json',
  'package.json',
];

/** Builds the image as `make container` does, once for each state of the files that it is made of. */
export async function agentImage(): Promise<AgentImage> {
  const version = await stateOf([...IMAGE_INPUTS, 'test/cluster/lab/image.ts']);
  const built = builtImage(version);
  if (built !== undefined) return built;
  await using docker = await startDocker();
  const base = await baseOfOwnLayers(docker);
  return await makeImage(docker, { tree: ROOT, base, version });
}

/**
 * Imports a Debian with a line of its own in a file that comes first in each image. So no layer is that of a release: nodes that
 * have the image here pull the whole release, as new nodes do.
 *
 * @param install what else the shell runs in it
 */
export async function baseOfOwnLayers(docker: Docker, install = 'true'): Promise<string> {
  const [container, base] = ['base-of-own-layers', 'debian-of-the-test:own-layers'];
  const script = `echo VARIANT_ID=test >> /usr/lib/os-release && ${install}`;
  const command = ['sh', '-c', script];
  await docker.must('run', '--network=none', `--name=${container}`, await importBase(docker), ...command);
  await docker.must('commit', container, base);
  return base;
}

/** What an image is made of. */
export interface ImageParts {
  /** The directory of the project. */
  readonly tree: string;
  /** The base image. */
  readonly base: string;
  readonly version: string;
  /** More variables for make. */
  readonly variables?: readonly string[];
}

/** Runs `make container` in the tree, with the tree's own Node.js first on the path, and saves the image. */
export async function makeImage(
  docker: Docker,
  { tree, base, version, variables = [] }: ImageParts,
): Promise<AgentImage> {
  const image = imageOf(version);
  const { file, args } = makeCommandIn(
    tree,
    '022',
    'container',
    `DOCKER=${docker.client}`,
    `BASE_IMAGE=${base}`,
    `VERSION=${version}`,
    'DOCKER_BUILD_FLAGS=--network=none',
    ...variables,
  );
  const PATH = `${join(tree, 'node_modules/.bin')}:${docker.env['PATH']}`;
  const env = { ...docker.env, PATH, DOCKER_BUILDKIT: '0' };
  await succeed(run(docker.node.wrap(file, args), env, { timeoutMs: MINUTES_MS }));
  await docker.must('tag', `ip-masq-agent-${OWN}:${version}`, image.name);
  await mkdir(IMAGES, { recursive: true });
  await docker.must('save', '--output', `${image.archive}.tmp`, image.name);
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
export async function stateOf(inputs: readonly string[]): Promise<string> {
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
