/** Run as a program, it builds the agent's image where it is not there yet, and prints its name. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { startDocker } from '../../image/docker.ts';
import { importBase, makeCommand, ROOT } from '../../image/make.ts';
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
const INPUTS = [
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
  const version = await stateOfInputs();
  const name = `localhost/ip-masq-agent:${version}`;
  const archive = join(IMAGES, `ip-masq-agent-${version}.tar`);
  if (existsSync(archive)) return { name, archive };
  await mkdir(IMAGES, { recursive: true });
  await using docker = await startDocker();
  const { file, args } = makeCommand(
    '022',
    'container',
    `DOCKER=${docker.client}`,
    `BASE_IMAGE=${await importBase(docker)}`,
    `VERSION=${version}`,
    'DOCKER_BUILD_FLAGS=--network=none',
  );
  const env = { ...docker.env, DOCKER_BUILDKIT: '0' };
  await succeed(run(docker.node.wrap(file, args), env, { timeoutMs: MINUTES_MS }));
  await docker.must('tag', `ip-masq-agent-${OWN}:${version}`, name);
  await docker.must('save', '--output', `${archive}.tmp`, name);
  await rename(`${archive}.tmp`, archive);
  return { name, archive };
}

/** A version that changes with the content of the image. */
async function stateOfInputs(): Promise<string> {
  const hash = createHash('sha256');
  for (const file of await inputFiles()) hash.update(`${file}\0`).update(await readFile(join(ROOT, file)));
  return `test-${hash.digest('hex').slice(0, 12)}`;
}

async function inputFiles(): Promise<readonly string[]> {
  const found = await Promise.all(
    INPUTS.map(async (input) => {
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
