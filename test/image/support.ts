import { join } from 'node:path';
import { run, succeed } from '../lab/run.ts';
import { type Files, temporaryDirectory } from '../lab/volume.ts';
import { type AgentContainer, startAgent } from './daemonset.ts';
import { type Docker, startDocker } from './docker.ts';
import { imageVariables, makeCommand, OWN, ownEnvironment, ROOT } from './make.ts';
import { startRegistry } from './registry.ts';

const MINUTES_MS = 600_000;
const VERSION = 'v1.2.3-test';
const TIME = { file: 'git', args: ['-C', ROOT, 'log', '-1', '--format=%ct'] };

/** A Docker, a registry, and make for releases to that registry. */
interface Workshop extends AsyncDisposable {
  readonly docker: Docker;
  /** The address of the registry. */
  readonly registry: string;
  /** Runs make in the network of the Docker; it must succeed. */
  make(umask: string, ...words: readonly string[]): Promise<void>;
}

export interface ImageLab extends Workshop {
  /** The version that the images are built as. */
  readonly version: string;
  /** The name of the image for the architecture of this machine. */
  readonly image: string;
  /** When the agent's files in it are from, in seconds since the epoch. */
  readonly time: number;
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
 */
async function startWorkshop(pushed: string): Promise<Workshop> {
  await using stack = new AsyncDisposableStack();
  const own = ownEnvironment();
  const docker = stack.use(await startDocker());
  const { address } = stack.use(await startRegistry(docker.node, pushed));
  const registry = [`REGISTRY=${address}`, `VERSION=${VERSION}`, 'PUSH_FLAGS=--tls-verify=false'];
  const variables = [...registry, ...(await imageVariables(own))];
  // Packages of npm and Debian come from the network, once: then they are in layers that buildah keeps.
  await succeed(
    run(makeCommand('022', 'container', `build-${OWN}`, ...variables), own, { timeoutMs: MINUTES_MS }),
  );
  const owned = stack.move();
  return {
    docker,
    registry: address,
    make: async (umask, ...words) => {
      const { file, args } = makeCommand(umask, ...words, ...variables);
      await succeed(run(docker.node.wrap(file, args), own, { timeoutMs: MINUTES_MS }));
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Makes a release with the image for the architecture of this machine. */
export async function createImageLab(): Promise<ImageLab> {
  await using stack = new AsyncDisposableStack();
  const { path: dir } = stack.use(await temporaryDirectory());
  const { docker, registry, make } = stack.use(await startWorkshop(join(dir, 'pushed')));
  const image = `${registry}/ip-masq-agent-${OWN}:${VERSION}`;
  await make('022', 'release');
  await docker.must('pull', '--quiet', image);
  let started = 0;
  const start = async (files: Files, args: readonly string[], isNftables = false) => {
    started += 1;
    return await startAgent(docker, image, join(dir, `${started}`), files, args, isNftables);
  };
  const owned = stack.move();
  return {
    docker,
    version: VERSION,
    image,
    registry,
    time: Number(await succeed(run(TIME, ownEnvironment()))),
    release: join(ROOT, 'bin/release', VERSION),
    make,
    start: (files, ...args) => start(files, args),
    startNftables: (files, ...args) => start(files, ['--backend=nftables', ...args], true),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
