// Prints, as JSON, what a program could have changed on the machine that it runs on: `machine-look.ts STORE CGROUP`: STORE is that of
// `machine-setup.ts`, and CGROUP the name of the cluster's.
import { execFileSync } from 'node:child_process';
import { type Dirent, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Look } from './machine.ts';

/** Counters and gauges: they change by themselves. */
const VOLATILE =
  /^(fs\/(aio-nr|dentry-state|file-nr|inode-nr|inode-state|quota\/.*)|kernel\/(ns_last_pid|perf_.*|pty\/nr|random\/.*)|net\/netfilter\/nf_conntrack_count)$/;

const [, , store = '', cgroup = ''] = process.argv;
const uppers = readdirSync(store).map((name) => join(store, name, 'upper'));
const look: Look = {
  sysctls: sysctls(),
  mounts: readFileSync('/proc/self/mountinfo', 'utf8').trim().split('\n'),
  cgroups: walk('/sys/fs/cgroup', (entry) => entry.isDirectory()).filter((path) => !isOfOtherTests(path)),
  files: [...uppers.flatMap((upper) => walk(upper)), ...readdirSync('/'), ...readdirSync('/dev')],
  network: [
    output('ip', 'link'),
    output('ip', 'address'),
    output('ip', 'route', 'show', 'table', 'all'),
    output('ip', 'rule'),
    output('nft', 'list', 'ruleset'),
  ],
};
process.stdout.write(JSON.stringify(look));

/** Other worktrees may have a cluster, or run the image tests, at the same time. */
function isOfOtherTests(path: string): boolean {
  const [name = cgroup] = /(?<=\/)ip-masq-(cluster|test)-[^/]*/.exec(path) ?? [];
  return name !== cgroup;
}

/** Everything below a directory; what vanishes meanwhile is left out. */
function walk(directory: string, isWanted: (entry: Dirent) => boolean = () => true): readonly string[] {
  return entriesOf(directory).flatMap((entry) => {
    const path = join(directory, entry.name);
    return [...(isWanted(entry) ? [path] : []), ...(entry.isDirectory() ? walk(path, isWanted) : [])];
  });
}

function entriesOf(directory: string): readonly Dirent[] {
  try {
    return readdirSync(directory, { withFileTypes: true });
  } catch {
    return [];
  }
}

function sysctls(): Readonly<Record<string, string>> {
  const files = walk('/proc/sys', (entry) => entry.isFile());
  const names = files.map((path) => path.slice('/proc/sys/'.length));
  const steady = names.filter((name) => !VOLATILE.test(name));
  return Object.fromEntries(steady.map((name) => [name, readable(`/proc/sys/${name}`)]));
}

/** Some can only be written. */
function readable(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? '';
  }
}

function output(file: string, ...args: readonly string[]): string {
  return execFileSync(file, args, { encoding: 'utf8' });
}
