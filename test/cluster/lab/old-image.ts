import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ownEnvironment, ROOT } from '../../image/make.ts';
import { run, succeed } from '../../lab/run.ts';
import { type AgentImage, buildImage, builtImage } from './image.ts';

/** There is no release yet. This one is the first whose image is built as it is today. */
const UNTIL_RELEASED = 'bbcb3d3d';
const TREES = join(ROOT, 'bin/cluster/trees');

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
    // The tree is below this repository, whose commit make would take.
    return await buildImage(tree, version, `REVISION=${commit}`);
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

/** The files of a commit. */
async function checkOut(commit: string, tree: string): Promise<void> {
  await rm(tree, { recursive: true, force: true });
  await mkdir(tree, { recursive: true });
  const archive = join(tree, 'tree.tar');
  await succeed(git('archive', `--output=${archive}`, commit));
  await succeed(
    run({ file: 'tar', args: ['--extract', `--file=${archive}`, `--directory=${tree}`] }, ownEnvironment()),
  );
}

function git(...args: readonly string[]) {
  return run({ file: 'git', args: ['-C', ROOT, ...args] }, ownEnvironment());
}
