import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Environment, run, succeed } from '../lab/run.ts';
import { type Files, temporaryDirectory } from '../lab/volume.ts';
import { type AgentContainer, startAgent } from './daemonset.ts';
import { type Docker, startDocker } from './docker.ts';
import { makeCommand, ROOT } from './make.ts';
import { startRegistry } from './registry.ts';

/** The architecture of this machine, as Debian and Docker name it. Its image can run here. */
export const OWN = process.arch === 'arm64' ? 'arm64' : 'amd64';

/** The other architecture that there is an image for. Its image can be built and looked at, and QEMU runs its Node.js. */
export const OTHER = OWN === 'arm64' ? 'amd64' : 'arm64';

/** Of `e_machine` in elf(5). */
const MACHINES: Readonly<Record<number, string>> = { 62: 'amd64', 183: 'arm64' };

/** The architecture that a program or a library is for. */
export function machineOf(elf: Buffer): string | undefined {
  return MACHINES[elf.readUInt16LE(18)];
}

const MINUTES_MS = 300_000;
const VERSION = 'v1.2.3-test';

/** A Docker, a registry that it can push to, and make for releases to that registry. */
export interface Workshop extends AsyncDisposable {
  readonly docker: Docker;
  /** The address of the registry. */
  readonly registry: string;
  /** Runs make in the network of the Docker; it must succeed. */
  make(umask: string, ...words: readonly string[]): Promise<void>;
}

export interface ImageLab extends Workshop {
  /** The version that the images are built as. */
  readonly version: string;
  /** The name of the image for an architecture. */
  image(architecture: string): string;
  /** The directory that `make release` has written. */
  readonly release: string;
  /** Starts the agent as the DaemonSet's manifest says, with more arguments behind its own. */
  start(files: Files, ...args: string[]): Promise<AgentContainer>;
  /** The same with the rights that the component nftables leaves. */
  startNftables(files: Files, ...args: string[]): Promise<AgentContainer>;
}

/**
 * Starts Docker and a registry, whose builds need no network.
 *
 * @param pushed the directory of what is pushed
 * @param path the PATH of the person who runs make
 */
export async function startWorkshop(version: string, pushed: string, path: string): Promise<Workshop> {
  await using stack = new AsyncDisposableStack();
  const own = { ...networkEnvironment(), PATH: path };
  // Debian's packages and the other architecture's Node.js come from the network, once.
  for (const architecture of [OWN, OTHER])
    await succeed(run(makeCommand('022', `build-${architecture}`), own, { timeoutMs: MINUTES_MS }));
  const docker = stack.use(await startDocker());
  const { address } = stack.use(await startRegistry(docker.node, pushed));
  const variables = [
    `DOCKER=${docker.client}`,
    `REGISTRY=${address}`,
    `VERSION=${version}`,
    'PUSH_FLAGS=--dest-tls-verify=false',
  ];
  const owned = stack.move();
  return {
    docker,
    registry: address,
    make: async (umask, ...words) => {
      const { file, args } = makeCommand(umask, ...words, ...variables);
      const env = { ...docker.env, ...own };
      await succeed(run(docker.node.wrap(file, args), env, { timeoutMs: MINUTES_MS }));
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Makes a release with the images of all architectures. */
export async function createImageLab(): Promise<ImageLab> {
  await using stack = new AsyncDisposableStack();
  const { path: dir } = stack.use(await temporaryDirectory());
  const path = await pathWithOtherNode(join(dir, 'path'));
  const { docker, registry, make } = stack.use(await startWorkshop(VERSION, join(dir, 'pushed'), path));
  const image = (architecture: string) => `${registry}/ip-masq-agent-${architecture}:${VERSION}`;
  await make('022', 'release');
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
async function pathWithOtherNode(dir: string): Promise<string> {
  const node = '#!/bin/sh\necho "this is not the Node.js of the project" >&2\nexit 1\n';
  await mkdir(dir);
  await writeFile(join(dir, 'node'), node, { mode: 0o755 });
  const ofMachine = (process.env['PATH'] ?? '').split(':').filter((part) => !part.includes('node_modules'));
  return [dir, ...ofMachine].join(':');
}

/** What npm needs where the network is behind a proxy. */
function networkEnvironment(): Environment {
  const names = ['NODE_EXTRA_CA_CERTS', 'HTTPS_PROXY', 'HTTP_PROXY', 'NO_PROXY'];
  const given = names.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return Object.fromEntries(given);
}
