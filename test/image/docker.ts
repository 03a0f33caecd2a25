import { once } from 'node:events';
import { access, constants, readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createBox, createNeighbour, type HeldBox } from '../lab/box.ts';
import { CGROUPS, removeCgroups } from '../lab/cgroups.ts';
import { type Environment, type RunResult, run, succeed } from '../lab/run.ts';
import { temporaryDirectory } from '../lab/volume.ts';

/** A Docker of its own. Its network of the host is that of the node: what `hostNetwork: true` gives to a pod. */
export interface Docker extends AsyncDisposable {
  readonly node: HeldBox;
  /** Runs the client to its end. */
  run(...args: string[]): Promise<RunResult>;
  /** The output of the client, which must succeed, without white space around it. */
  must(...args: string[]): Promise<string>;
}

const PATIENCE_MS = 120_000;
const MINUTES_MS = 300_000;

/** Why there can be no Docker here; undefined if there can. */
export async function whyNoDocker(): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return 'Docker runs as root only, and this is another user';
  const capabilities = /^CapEff:\s*(\S+)/m.exec(await readFile('/proc/self/status', 'utf8'))?.[1] ?? '0';
  const SYS_ADMIN = 1n << 21n;
  if ((BigInt(`0x${capabilities}`) & SYS_ADMIN) === 0n)
    return 'Docker needs the capability SYS_ADMIN, and this is root without it';
  return await access(CGROUPS, constants.W_OK).then(
    () => undefined,
    (error: Error) => `Docker needs cgroups that it may make groups in: ${error.message}`,
  );
}

/**
 * Starts dockerd in a network namespace of its own. It and its containers die with this process, however that dies; no
 * mount, rule or link of the machine's own changes.
 */
export async function startDocker(): Promise<Docker> {
  await using stack = new AsyncDisposableStack();
  const { path: dir } = stack.use(await temporaryDirectory());
  const cgroup = basename(dir);
  // Docker leaves the parent of its containers' cgroups.
  stack.defer(() => removeCgroups(cgroup));
  // Of the two kinds of boxes this one leaves /sys as it is, and with it the cgroups.
  const node = stack.use(await createNeighbour(stack.use(await createBox('netns'))));
  const host = `unix://${dir}/docker.sock`;
  const child = node.spawn('unshare', [...OWN_NAMESPACES, 'dockerd', ...daemonFlags(dir, host, cgroup)], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let log = '';
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
    log += chunk;
  });
  await once(child, 'spawn');
  stack.defer(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  const env = { ...node.env, DOCKER_HOST: host, HOME: dir };
  await untilItAnswers(env, () => {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error(`dockerd ended: ${log}`);
    return log;
  });
  const docker = (...args: string[]) => run({ file: 'docker', args }, env, { timeoutMs: MINUTES_MS });
  const owned = stack.move();
  return {
    node,
    run: docker,
    must: async (...args) => (await succeed(docker(...args))).trim(),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const OWN_NAMESPACES = ['--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];

function daemonFlags(dir: string, host: string, cgroup: string): readonly string[] {
  const paths = [`--data-root=${dir}/data`, `--exec-root=${dir}/exec`, `--pidfile=${dir}/docker.pid`];
  const aloof = [
    '--bridge=none',
    '--iptables=false',
    '--ip6tables=false',
    '--ip-forward=false',
    '--ip-masq=false',
  ];
  return [
    `--host=${host}`,
    ...paths,
    ...aloof,
    '--exec-opt=native.cgroupdriver=cgroupfs',
    `--cgroup-parent=/${cgroup}`,
    '--insecure-registry=127.0.0.0/8',
    '--log-level=warn',
  ];
}

/** Waits until the daemon answers. */
async function untilItAnswers(env: Environment, alive: () => string): Promise<void> {
  for (const deadline = Date.now() + PATIENCE_MS; ; await delay(50)) {
    const log = alive();
    const { code, stderr } = await run({ file: 'docker', args: ['info'] }, env);
    if (code === 0) return;
    if (Date.now() > deadline) throw new Error(`dockerd does not answer: ${stderr}${log}`);
  }
}
