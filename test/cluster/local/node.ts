import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { mkdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Command, run, succeed } from '../../lab/run.ts';
import { until } from '../lab/wait.ts';
import { toolEnvironment } from './environment.ts';
import { PROGRAMS } from './options.ts';

/** A node: namespaces for network, mounts, processes, host name and IPC. All that runs in it ends with its first process. */
export interface Node {
  readonly name: string;
  readonly index: number;
  /** The first process, as this machine numbers it. */
  readonly pid: number;
  /** Below the state directory, as this machine sees it. */
  readonly directory: string;
  /** The command that runs a program in the node. */
  wrap(file: string, args: readonly string[]): Command;
  /** The output of a program in the node, which must succeed. */
  must(file: string, ...args: readonly string[]): Promise<string>;
  /** Kills everything in it. */
  end(): Promise<void>;
}

const SET_UP = fileURLToPath(new URL('node-setup.ts', import.meta.url));
const PAUSE = join(PROGRAMS, 'pause');
const NAMESPACES = ['--net', '--mount', '--pid', '--uts', '--ipc'];

export async function startNode(index: number, state: string, log: string): Promise<Node> {
  const name = `node${index}`;
  const directory = join(state, name);
  await mkdir(directory, { recursive: true });
  const holder = startHolder(log);
  const pid = await firstProcess(holder, log);
  const wrap: Node['wrap'] = (file, args) => ({
    file: 'nsenter',
    args: ['--target', `${pid}`, ...NAMESPACES, '--', file, ...args],
  });
  const must: Node['must'] = (file, ...args) => succeed(run(wrap(file, args), toolEnvironment()));
  const end = async (): Promise<void> => {
    // unshare(1) ends when its child has ended, and that ends when nothing is left in its PID namespace.
    const gone = holder.exitCode !== null || holder.signalCode !== null ? undefined : once(holder, 'exit');
    if (gone !== undefined) process.kill(pid, 'SIGKILL');
    await gone;
  };
  try {
    await must(process.execPath, SET_UP, name, state);
  } catch (error) {
    await end();
    throw error;
  }
  return { name, index, pid, directory, wrap, must, end };
}

/** The parent-death signals (prctl(2)) end the node when this process ends, also by SIGKILL. */
function startHolder(log: string): ChildProcess {
  const output = openSync(log, 'a', 0o600);
  try {
    const command = ['unshare', ...NAMESPACES, '--fork', '--kill-child', '--mount-proc', PAUSE];
    const options = ['--pdeathsig', 'KILL', ...command];
    return spawn('setpriv', options, { env: toolEnvironment(), stdio: ['ignore', output, output] });
  } finally {
    closeSync(output);
  }
}

async function firstProcess(holder: ChildProcess, log: string): Promise<number> {
  const ended = once(holder, 'exit').then(async () => {
    throw new Error(`there are no namespaces to be had: ${await readFile(log, 'utf8')}`);
  });
  const child = async (): Promise<number> => {
    const children = await readFile(`/proc/${holder.pid}/task/${holder.pid}/children`, 'utf8');
    const pid = Number(children.trim().split(' ')[0]);
    // Until it is this program, unshare(1) is still at work in the namespaces.
    return pid > 0 && (await readlink(`/proc/${pid}/exe`)) === PAUSE ? pid : 0;
  };
  const pid = await Promise.race([ended, until('the namespaces of a node', child, (found) => found > 0)]);
  // From now on, its end is no failure.
  ended.catch(() => {});
  return pid;
}
