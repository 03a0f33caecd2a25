import { mkdir, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { type Files, ProjectedVolume, temporaryDirectory } from '../lab/volume.ts';
import { OTHER, OWN } from './architectures.ts';
import { debianRoot } from './base.ts';
import { containerOf, dockerFlags, examplePod } from './daemonset.ts';
import { type Docker, startDocker } from './docker.ts';
import { makeCommand, makeWithNetwork, succeedMaking } from './make.ts';
import { startRegistry } from './registry.ts';

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
  make(
    target: string,
    environment: Readonly<Record<string, string>>,
    ...variables: string[]
  ): Promise<string>;
  /** Starts the agent as the DaemonSet's manifest says, with more arguments behind its own. */
  start(files: Files, ...args: string[]): Promise<AgentContainer>;
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
  await makeWithNetwork(`build-${OTHER}`);
  const docker = stack.use(await startDocker());
  await docker.must('import', archive, BASE);
  const registry = stack.use(await startRegistry(docker.node)).address;
  const { path: dir } = stack.use(await temporaryDirectory());
  const image = (architecture: string) => `${registry}/ip-masq-agent-${architecture}:${VERSION}`;
  const variables = [
    `DOCKER=${docker.client}`,
    `BASE_IMAGE=${BASE}`,
    `REGISTRY=${registry}`,
    `VERSION=${VERSION}`,
    'DOCKER_BUILD_FLAGS=--network=none --no-cache',
    'DOCKER_MANIFEST_FLAGS=--insecure',
  ];
  const make: ImageLab['make'] = async (target, environment) => {
    const { file, args } = makeCommand(target, ...variables);
    return await succeedMaking(docker.node.wrap(file, args), { ...docker.env, ...environment });
  };
  await make('manifest', { DOCKER_BUILDKIT: '0' });
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
