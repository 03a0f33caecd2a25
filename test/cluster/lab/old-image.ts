import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Docker, startDocker } from '../../image/docker.ts';
import { importBase, makeCommandIn, ROOT } from '../../image/make.ts';
import { OWN } from '../../image/support.ts';
import { type Environment, run, succeed } from '../../lab/run.ts';
import { type AgentImage, builtImage, imageOf } from './image.ts';

/** There is no release yet. This one has all flags that the manifests set. */
const UNTIL_RELEASED = 'b08799e0b43580fe96abe32d302a54e5b055a982';
const TREES = join(ROOT, 'bin/cluster/trees');
const MINUTES_MS = 600_000;

/** Builds the image of the last release from its commit, once. Undefined if this clone does not have the commit. */
export async function oldAgentImage(): Promise<AgentImage | undefined> {
  const commit = await lastRelease();
  if ((await git('cat-file', '-e', `${commit}^{commit}`)).code !== 0) return undefined;
  const version = `old-${commit.slice(0, 12)}`;
  const built = builtImage(version);
  if (built !== undefined) return built;
  const tree = join(TREES, commit);
  try {
    await checkOut(commit, tree);
    await using docker = await startDocker();
    // A build of an earlier commit installs the packages in the base, and has no network.
    const base = await baseOfOwnLayers(docker, `dpkg --install --recursive /debs/${OWN}`);
    // The tree is below this repository, whose commit make would take.
    return await makeImage(docker, { tree, base, version, variables: [`REVISION=${commit}`] });
  } finally {
    await rm(tree, { recursive: true, force: true });
  }
}

/** The commit of the newest release before the one that this commit may be. */
async function lastRelease(): Promise<string> {
  const flags = ['--list', 'v*', '--merged', 'HEAD', '--no-contains', 'HEAD', '--sort=-version:refname'];
  const [tag] = (await succeed(git('tag', ...flags))).split('\n');
  return tag ? (await succeed(git('rev-list', '--max-count=1', tag))).trim() : UNTIL_RELEASED;
}

/** The files of a commit, with the npm packages of its lockfile. */
async function checkOut(commit: string, tree: string): Promise<void> {
  await rm(tree, { recursive: true, force: true });
  await mkdir(tree, { recursive: true });
  const archive = join(tree, 'tree.tar');
  await succeed(git('archive', `--output=${archive}`, commit));
  await succeed(run({ file: 'tar', args: ['--extract', `--file=${archive}`, `--directory=${tree}`] }, own()));
  await succeed(run({ file: 'make', args: ['-C', tree, 'setup'] }, own(), { timeoutMs: MINUTES_MS }));
}

function git(...args: readonly string[]) {
  return run({ file: 'git', args: ['-C', ROOT, ...args] }, own());
}

/** npm needs the user's own settings, and make nothing of a make that this may run in. */
function own(): Environment {
  const given = Object.entries(process.env).flatMap(([name, value]) =>
    value === undefined || /^(?:MAKE|MFLAGS|NODE_TEST_)/.test(name) ? [] : [[name, value] as const],
  );
  return Object.fromEntries(given);
}

/**
 * Imports a Debian with a line of its own in a file that comes first in each image. So no layer is that of a release: nodes that
 * have the image here pull the whole release, as new nodes do.
 *
 * @param install what else the shell runs in it
 */
async function baseOfOwnLayers(docker: Docker, install = 'true'): Promise<string> {
  const [container, base] = ['base-of-own-layers', 'debian-of-the-test:own-layers'];
  const script = `echo VARIANT_ID=test >> /usr/lib/os-release && ${install}`;
  const command = ['sh', '-c', script];
  await docker.must('run', '--network=none', `--name=${container}`, await importBase(docker), ...command);
  await docker.must('commit', container, base);
  return base;
}

/** What an image is made of. */
interface ImageParts {
  /** The directory of the project. */
  readonly tree: string;
  /** The base image. */
  readonly base: string;
  readonly version: string;
  /** More variables for make. */
  readonly variables?: readonly string[];
}

/** Runs `make container` in the tree, with the tree's own Node.js first on the path, and saves the image. */
async function makeImage(
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
  await mkdir(dirname(image.archive), { recursive: true });
  await docker.must('save', '--output', `${image.archive}.tmp`, image.name);
  await rename(`${image.archive}.tmp`, image.archive);
  return image;
}
