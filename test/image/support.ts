import { mkdir, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Command, type Environment, run, succeed } from '../lab/run.ts';
import { type Files, ProjectedVolume, temporaryDirectory } from '../lab/volume.ts';
import { debianRoot } from './base.ts';
import { containerOf, dockerFlags, examplePod } from './daemonset.ts';
import { type Docker, startDocker } from './docker.ts';
import { startRegistry } from './registry.ts';

/** The architecture of this machine, as Debian and Docker name it. Its image can run here. */
export const OWN = process.arch === 'arm64' ? 'arm64' : 'amd64';

/** The other architecture that there is an image for. Its image can be built and looked at. */
export const OTHER = OWN === 'arm64' ? 'amd64' : 'arm64';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const MINUTES_MS = 300_000;
const VERSION = 'v1.2.3-test';
const BASE = 'debian-of-the-test:bookworm';

export interface ImageLab extends AsyncDisposable {
  readonly docker: Docker;
  /** The version that the images are built as. */
  readonly version: string;
  /** The name of the image for an architecture. */
  image(architecture: string): string;
  /** Where `make manifest` has pushed to. */
  readonly registry: string;
  /** Runs make in the network of the Docker; it must succeed. */
  make(builder: Builder, ...words: readonly string[]): Promise<void>;
  /** Starts the agent as the DaemonSet's manifest says, with more arguments behind its own. */
  start(files: Files, ...args: string[]): Promise<AgentContainer>;
}

/** Who builds, and with what. */
export interface Builder {
  readonly buildKit: boolean;
  readonly umask: string;
}

/** A container that runs as the DaemonSet's manifest says. */
export interface AgentContainer extends AsyncDisposable {
  readonly id: string;
  readonly volume: ProjectedVolume;
  /** The file that kubelet would read why it ended from. */
  readonly terminationMessage: string;
  logs(): Promise<string>;
  /** Waits until it has ended by itself. */
  exitCode(): Promise<number>;
}

/** Starts Docker and a registry, then builds and pushes the images of all architectures with make, without network. */
export async function createImageLab(): Promise<ImageLab> {
  await using stack = new AsyncDisposableStack();
  const archive = await debianRoot();
  const { path: dir } = stack.use(await temporaryDirectory());
  const path = await pathWithOtherNode(join(dir, 'path'));
  // The other architecture's Node.js comes from the network, once.
  await succeed(run(makeCommand('022', `build-${OTHER}`), path, { timeoutMs: MINUTES_MS }));
  const docker = stack.use(await startDocker());
  await docker.must('import', archive, BASE);
  const registry = stack.use(await startRegistry(docker.node)).address;
  const image = (architecture: string) => `${registry}/ip-masq-agent-${architecture}:${VERSION}`;
  const variables = [
    `DOCKER=${docker.client}`,
    `BASE_IMAGE=${BASE}`,
    `REGISTRY=${registry}`,
    `VERSION=${VERSION}`,
    'DOCKER_BUILD_FLAGS=--network=none --no-cache',
    'DOCKER_MANIFEST_FLAGS=--insecure',
  ];
  const make: ImageLab['make'] = async ({ buildKit, umask }, ...words) => {
    const { file, args } = makeCommand(umask, ...words, ...variables);
    const env = { ...docker.env, ...path, DOCKER_BUILDKIT: buildKit ? '1' : '0' };
    await succeed(run(docker.node.wrap(file, args), env, { timeoutMs: MINUTES_MS }));
  };
  await make({ buildKit: false, umask: '022' }, 'manifest');
  let started = 0;
  const owned = stack.move();
  return {
    docker,
    version: VERSION,
    image,
    registry,
    make,
    start: async (files, ...args) => {
      started += 1;
      return await startAgent(docker, image(OWN), join(dir, `${started}`), files, args);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The command that runs make as a person does, but for the set-up: a test must not install anything. */
function makeCommand(umask: string, ...words: readonly string[]): Command {
  return {
    file: 'sh',
    args: ['-c', 'umask "$0" && exec make "$@"', umask, '-C', ROOT, 'SETUP=true', ...words],
  };
}

/** The PATH of a person whose own Node.js is not the project's: that Node.js comes first here, and fails. */
async function pathWithOtherNode(dir: string): Promise<Environment> {
  await mkdir(dir);
  await writeFile(join(dir, 'node'), '#!/bin/sh\necho "the Node.js of the machine" >&2; exit 1\n', {
    mode: 0o755,
  });
  const ofMachine = (process.env['PATH'] ?? '').split(':').filter((part) => !part.includes('node_modules'));
  return { PATH: [dir, ...ofMachine].join(':') };
}

async function startAgent(
  docker: Docker,
  image: string,
  dir: string,
  files: Files,
  args: readonly string[],
): Promise<AgentContainer> {
  await mkdir(dir);
  const volume = await ProjectedVolume.create(join(dir, 'config'), files);
  const terminationMessage = join(dir, 'termination-message');
  // The lock of the node is the one that the tools of the lab take too.
  const lock = docker.node.env['XTABLES_LOCKFILE'] ?? '';
  for (const file of [terminationMessage, lock]) await writeFile(file, '');
  const pod = examplePod();
  const flags = dockerFlags(pod, {
    projected: volume.dir,
    host: { '/run/xtables.lock': lock },
    terminationMessage,
  });
  const words = [...(containerOf(pod).args ?? []), ...args];
  const id = await docker.must(
    'run',
    '--detach',
    '--name',
    `agent-${basename(dir)}`,
    ...flags,
    image,
    ...words,
  );
  return {
    id,
    volume,
    terminationMessage,
    logs: async () => {
      const { stdout, stderr } = await docker.run('logs', id);
      return stdout + stderr;
    },
    exitCode: async () => Number(await docker.must('wait', id)),
    [Symbol.asyncDispose]: async () => {
      await docker.run('rm', '--force', id);
    },
  };
}
