// Runs in the namespaces of a new node: `node-setup.ts NAME STATE`. It takes from the node every way to change the machine.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { cover, mount } from './cover.ts';

/** Where a node sees the state directory of its cluster, wherever that is on the machine. */
const STATE_IN_NODE = '/run/cluster';

/** kubelet, containerd and CNI's plugins write below these, whatever their flags say. It goes to memory. */
const COVERED = ['/etc', '/opt', '/root', '/tmp', '/usr', '/var'];

/** kubelet sets these (pkg/kubelet/cm/container_manager_linux.go) and ends if it cannot. They are not of a namespace. */
const SYSCTLS_OF_KUBELET = [
  'kernel/keys/root_maxbytes',
  'kernel/keys/root_maxkeys',
  'kernel/panic',
  'kernel/panic_on_oops',
  'vm/overcommit_memory',
  'vm/panic_on_oom',
];

/** Large, and containerd's snapshots cannot be on an overlay. */
const ON_DISK = ['/var/lib/containerd', '/var/lib/kubelet', '/var/log/pods'];

const [, , name = '', state = ''] = process.argv;
execFileSync('hostname', [name]);
coverRun();
for (const directory of COVERED) cover(directory, '/run/cover');
for (const directory of ON_DISK) bind(`${STATE_IN_NODE}/${name}${directory}`, directory);
protectSysctls();
mount('-o', 'remount,bind,ro', '/');
// kubelet's mounts must reach its containerd and the containers: without this, projected volumes look empty in them.
mount('--make-rshared', '/');
writeFileSync('/proc/sys/net/ipv4/ip_forward', '1');
writeFileSync('/proc/sys/net/ipv6/conf/all/forwarding', '1');

/** Sockets, locks, names of network namespaces: /run is the node's own, and empty. */
function coverRun(): void {
  const elsewhere = '/mnt';
  mount('--bind', state, elsewhere);
  mount('-t', 'tmpfs', '-o', 'mode=755', 'tmpfs', '/run');
  mkdirSync(STATE_IN_NODE);
  mount('--bind', elsewhere, STATE_IN_NODE);
  execFileSync('umount', [elsewhere]);
}

function bind(from: string, to: string): void {
  for (const path of [from, to]) mkdirSync(path, { recursive: true });
  mount('--bind', from, to);
}

/** Of /proc/sys only net is of a namespace. The rest is read-only; what kubelet insists on writing goes to files. */
function protectSysctls(): void {
  mount('--bind', '/proc/sys', '/proc/sys');
  mount('--bind', '/proc/sys/net', '/proc/sys/net');
  for (const sysctl of SYSCTLS_OF_KUBELET) {
    const file = `/run/sysctl/${sysctl}`;
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, readFileSync(`/proc/sys/${sysctl}`));
    mount('--bind', file, `/proc/sys/${sysctl}`);
  }
  mount('-o', 'remount,bind,ro', '/proc/sys');
}
