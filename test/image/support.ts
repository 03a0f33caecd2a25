import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Environment, run, succeed } from '../lab/run.ts';
import { type Files, temporaryDirectory } from '../lab/volume.ts';
import { type AgentContainer, startAgent } from './daemonset.ts';
import { type Docker, startDocker } from './docker.ts';
import { importBase, makeCommand, ROOT } from './make.ts';
import { startRegistry } from './registry.ts';

/** The architecture of this machine, as Debian and Docker name it. Its image can run here. */
export const OWN = process.arch === 'arm64' ? 'arm64' : 'amd64';

/** The other architecture that there is an image for. Its image can be built and looked at, and QEMU runs its Node.js. */
export const OTHER = OWN === 'arm64' ? 'amd64' : 'arm64';

const MINUTES_MS = 300_000;
const VERSION = 'v1.2.3-test';

export interface ImageLab extends AsyncDisposable {
  readonly docker: Docker;
  /** The version that the images are built as. */
  readonly version: string;
  /** The name of the image for an architecture. */
  image(architecture: string): string;
  /** Where `make release` has pushed to. */
  readonly registry: string;
  /** The directory that `make release` has written. */
  readonly release: string;
  /** Runs make in the network of the Docker; it must succeed. */
  make(builder: Builder, ...words: readonly string[]): Promise<void>;
  /** Starts the agent as the DaemonSet's manifest says, with more arguments behind its own. */
  start(files: Files, ...args: string[]): Promise<AgentContainer>;
  /** The same with the rights that the component nftables leaves. */
  startNftables(files: Files, ...args: string[]): Promise<AgentContainer>;
}

/** Who builds, and with what. */
export interface Builder {
  readonly buildKit: boolean;
  readonly umask: string;
}

/** Starts Docker and a registry, then makes a release with the images of all architectures, without network. */
export async function createImageLab(): Promise<ImageLab> {
  await using stack = new AsyncDisposableStack();
  const { path: dir } = stack.use(await temporaryDirectory());
  const path = await pathWithOtherNode(join(dir, 'path'));
  // The other architecture's Node.js comes from the network, once.
  await succeed(run(makeCommand('022', `build-${OTHER}`), path, { timeoutMs: MINUTES_MS }));
  const docker = stack.use(await startDocker());
  const base = await importBase(docker);
  const registry = stack.use(await startRegistry(docker.node)).address;
  const image = (architecture: string) => `${registry}/ip-masq-agent-${architecture}:${VERSION}`;
  const variables = [
    `DOCKER=${docker.client}`,
    `BASE_IMAGE=${base}`,
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
  await make({ buildKit: false, umask: '022' }, 'release');
  let started = 0;
  const start = async (files: Files, args: readonly string[], isNftables = false) => {
    started += 1;
    return await startAgent(docker, image(OWN), join(dir, `${started}`), files, args, isNftables);
  };
  const owned = stack.move();
  return {
    docker,
    version: VERSION,
    image,
    registry,
    release: join(ROOT, 'bin/release', VERSION),
    make,
    start: (files, ...args) => start(files, args),
    startNftables: (files, ...args) => start(files, ['--backend=nftables', ...args], true),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The PATH of a person whose own Node.js is not the project's: that Node.js comes first here, and fails. */
async function pathWithOtherNode(dir: string): Promise<Environment> {
  const node = '#!/bin/sh\necho "this is not the Node.js of the project" >&2\nexit 1\n';
  await mkdir(dir);
  await writeFile(join(dir, 'node'), node, { mode: 0o755 });
  const ofMachine = (process.env['PATH'] ?? '').split(':').filter((part) => !part.includes('node_modules'));
  // npm needs the others where the network is behind a proxy.
  const names = ['NODE_EXTRA_CA_CERTS', 'HTTPS_PROXY', 'HTTP_PROXY', 'NO_PROXY'];
  const ofNetwork = names.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return { ...Object.fromEntries(ofNetwork), PATH: [dir, ...ofMachine].join(':') };
}
