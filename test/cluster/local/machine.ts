import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { readdir, readlink } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { hold } from '../../lab/holder.ts';
import { type RunResult, run, succeed } from '../../lab/run.ts';
import { toolEnvironment } from './environment.ts';
import { CLUSTER_BIN } from './options.ts';

/**
 * A stand-in for this machine, with namespaces of its own for mounts and network, so that whatever is changed in it comes from
 * the programs that were started in it. Its other resources are the machine's.
 */
export interface Machine extends AsyncDisposable {
  /** What a program could have changed, a line each. Of files, those that were written, removed or made outside of bin/cluster. */
  look(): Promise<readonly string[]>;
  run(file: string, ...args: readonly string[]): Promise<RunResult>;
  spawn(file: string, args: readonly string[], options: SpawnOptions): ChildProcess;
}

const MINUTES_MS = 300_000;
const STORE = '/mnt';
const SET_UP = fileURLToPath(new URL('machine-setup.ts', import.meta.url));
const NAMESPACES = ['net', 'mnt', 'pid', 'uts', 'ipc'];

/** Counters and gauges: they change by themselves. */
const VOLATILE =
  'fs/(aio-nr|dentry-state|file-nr|inode-nr|inode-state|quota/.*)|kernel/(ns_last_pid|perf_.*|pty/nr|random/.*)|net/netfilter/nf_conntrack_count';

/** For sh, which gets the name of the cluster's cgroup. Other worktrees may have a cluster, or run the image tests, at the same time. */
const LOOK = `
all() { sed "s|^|$1: |"; }
grep --recursive --text --no-messages . /proc/sys | grep -vE '^/proc/sys/(${VOLATILE}):' | all sysctl
all mount < /proc/self/mountinfo
find /sys/fs/cgroup -type d | grep -vE '/ip-masq-(cluster|test)-' | all cgroup
find /sys/fs/cgroup -type d -path "*/$0*" | all cgroup
find ${STORE}/*/upper | all file
find / /dev -maxdepth 1 | all file
for what in link address 'route show table all' rule; do ip $what | all network; done
nft list ruleset | all network
`;

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
  await must('ip', 'link', 'set', 'lo', 'up');
  await must(process.execPath, SET_UP, STORE, CLUSTER_BIN);
  return {
    look: async () => (await must('sh', '-c', LOOK, cgroup)).split('\n'),
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
export function differences(before: readonly string[], after: readonly string[]): readonly string[] {
  const missing = (here: readonly string[], there: ReadonlySet<string>) =>
    here.filter((line) => !there.has(line));
  // Cgroups of the machine's other programs end with them.
  const gone = missing(before, new Set(after)).filter((line) => !line.startsWith('cgroup: '));
  return [
    ...missing(after, new Set(before)).map((line) => `new: ${line}`),
    ...gone.map((line) => `gone: ${line}`),
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
