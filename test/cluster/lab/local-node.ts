import { spawn } from 'node:child_process';
import { readdir, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import type { Box } from '../../lab/box.ts';
import { toolEnvironment } from '../local/environment.ts';
import type { Cluster } from './cluster.ts';
import type { LabNode } from './scenario.ts';
import { until } from './wait.ts';

/** What the supervisor of a local cluster starts again when it ends, as systemd does on a real node. */
export type Program = 'containerd' | 'kube-proxy' | 'kubelet';

/** The processes of a node of a local cluster, and the ways to end them. */
export interface NodePrograms {
  /** Starts a program of this machine in the node's network. It ends with this process, however that ends. */
  readonly spawn: Box['spawn'];
  /** Ends a program as a crash does. */
  kill(...programs: readonly Program[]): Promise<void>;
  /** Ends a program, which then cannot start again until this is disposed of. */
  withhold(program: keyof typeof CONFIGS): Promise<AsyncDisposable>;
  /** Ends a program, and waits until it is started again. It may not answer yet. */
  restart(program: Program): Promise<void>;
  /** Ends all containers but those that hold the networks of the pods, which keep their addresses. */
  killContainers(): Promise<void>;
}

/** Without it, a program does not start. */
const CONFIGS = { containerd: 'containerd.toml', 'kube-proxy': 'kube-proxy.json' } as const;

interface Process {
  /** As the node numbers it. */
  readonly pid: string;
  readonly name: string;
  readonly cgroups: string;
}

/** What a pod's network belongs to, until the pod is gone. */
const SANDBOX = 'pause';
/** The cgroup that kubelet makes for pods. */
const PODS = /\/kubepods[/.]/;

/** @throws {Error} if the node is not on this machine */
export function localNode({ localNodes }: Cluster, { name, run }: LabNode): NodePrograms {
  const local = localNodes.find((node) => node.name === name);
  if (local === undefined) throw new Error(`${name} is not a node of a local cluster`);
  const root = `/proc/${local.pid}/root`;
  const processes = () => processesIn(join(root, 'proc'));
  const pidsOf = async (...programs: readonly string[]) =>
    (await processes()).filter((process) => programs.includes(process.name)).map(({ pid }) => pid);
  // Some may have ended meanwhile.
  const kill = async (pids: readonly string[]) => void (await run('kill', ['-KILL', ...pids]));
  const containers = async () =>
    (await processes())
      .filter((process) => PODS.test(process.cgroups) && process.name !== SANDBOX)
      .map(({ pid }) => pid);
  return {
    spawn: (file, args, options = {}) => {
      const enter = ['nsenter', '--target', `${local.pid}`, '--net', file];
      const mortal = ['--pdeathsig', 'KILL', ...enter, ...args];
      return spawn('setpriv', mortal, { ...options, env: toolEnvironment() });
    },
    kill: async (...programs) => kill(await pidsOf(...programs)),
    withhold: async (program) => {
      const config = join(root, 'run/cluster', name, CONFIGS[program]);
      await rename(config, `${config}.withheld`);
      await kill(await pidsOf(program));
      return { [Symbol.asyncDispose]: () => rename(`${config}.withheld`, config) };
    },
    restart: async (program) => {
      const before = await pidsOf(program);
      await kill(before);
      await until(
        `${program} to run again on ${name}`,
        () => pidsOf(program),
        (pids) => pids.some((pid) => !before.includes(pid)),
      );
    },
    killContainers: async () => kill(await containers()),
  };
}

/** Those that a proc(5) shows. */
async function processesIn(proc: string): Promise<readonly Process[]> {
  const pids = (await readdir(proc)).filter((name) => /^\d+$/.test(name));
  const found = pids.map(async (pid) => {
    // A process may end meanwhile.
    const read = (file: string) => readFile(join(proc, pid, file), 'utf8').catch(() => '');
    const [name, cgroups] = await Promise.all([read('comm'), read('cgroup')]);
    return { pid, name: name.trim(), cgroups };
  });
  return await Promise.all(found);
}
