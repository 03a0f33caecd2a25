import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { readdir, readlink } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { hold } from '../../lab/holder.ts';
import { type RunResult, run, succeed } from '../../lab/run.ts';
import { toolEnvironment } from './environment.ts';
import { CLUSTER_BIN } from './options.ts';

/** What a program could have changed. */
export interface Look {
  readonly sysctls: Readonly<Record<string, string>>;
  readonly mounts: readonly string[];
  readonly cgroups: readonly string[];
  /** Written, removed or made outside of bin/cluster, and the names in `/` and `/dev`. */
  readonly files: readonly string[];
  readonly network: readonly string[];
}

/**
 * A stand-in for this machine, with namespaces of its own for mounts and network, so that whatever is changed in it comes from
 * the programs that were started in it. Its other resources are the machine's.
 */
export interface Machine extends AsyncDisposable {
  look(): Promise<Look>;
  run(file: string, ...args: readonly string[]): Promise<RunResult>;
  spawn(file: string, args: readonly string[], options: SpawnOptions): ChildProcess;
}

const MINUTES_MS = 300_000;
const STORE = '/mnt';
const NAMESPACES = ['net', 'mnt', 'pid', 'uts', 'ipc'];

/** @param cgroup the cluster that is looked at: those of other clusters come and go */
export async function createMachine(cgroup: string): Promise<Machine> {
  const env = toolEnvironment();
  const args = ['--pdeathsig', 'KILL', 'unshare', '--mount', '--net', 'cat'];
  const pid = await hold({ file: 'setpriv', args }, env);
  const wrap = (file: string, args: readonly string[]) => ({
    file: 'nsenter',
    args: ['--target', `${pid}`, '--mount', '--net', '--', file, ...args],
  });
  const must = (file: string, ...args: readonly string[]) => succeed(run(wrap(file, args), env));
  const node = (program: string, ...args: readonly string[]) =>
    must(process.execPath, fileURLToPath(new URL(program, import.meta.url)), ...args);
  await must('ip', 'link', 'set', 'lo', 'up');
  await node('machine-setup.ts', STORE, CLUSTER_BIN);
  return {
    look: async () => JSON.parse(await node('machine-look.ts', STORE, cgroup)),
    run: (file, ...args) => run(wrap(file, args), env, { timeoutMs: MINUTES_MS }),
    spawn: (file, args, options) => {
      const command = wrap(file, args);
      return spawn(command.file, command.args, { ...options, env });
    },
    [Symbol.asyncDispose]: async () => {
      process.kill(pid, 'SIGKILL');
    },
  };
}

/** What differs, in words; empty if nothing does. */
export function differences(before: Look, after: Look): readonly string[] {
  const missing = (kind: keyof Omit<Look, 'sysctls'>, here: Look, there: Look) =>
    here[kind].filter((entry) => !there[kind].includes(entry));
  const listed = (['mounts', 'cgroups', 'files', 'network'] as const).flatMap((kind) => [
    ...missing(kind, after, before).map((entry) => `${kind}: new: ${entry}`),
    // Cgroups of the machine's other programs end with them.
    ...(kind === 'cgroups' ? [] : missing(kind, before, after).map((entry) => `${kind}: gone: ${entry}`)),
  ]);
  const names = new Set([...Object.keys(before.sysctls), ...Object.keys(after.sysctls)]);
  const changed = [...names].filter((name) => before.sysctls[name] !== after.sysctls[name]);
  return [
    ...listed,
    ...changed.map((name) => `sysctl ${name}: ${before.sysctls[name]} became ${after.sysctls[name]}`),
  ];
}

/** The names of the namespaces that processes are in, such as `net:[4026531840]`: of those that a proc(5) shows. */
export async function namespacesIn(proc: string): Promise<ReadonlySet<string>> {
  const pids = (await readdir(proc)).filter((name) => /^\d+$/.test(name));
  const found = pids.flatMap((pid) =>
    NAMESPACES.map((kind) => readlink(`${proc}/${pid}/ns/${kind}`).catch(() => '')),
  );
  return new Set((await Promise.all(found)).filter((name) => name !== ''));
}
