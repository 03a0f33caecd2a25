import { run, succeed } from '../../lab/run.ts';
import { toolEnvironment } from './environment.ts';
import type { Node } from './node.ts';
import type { Families } from './options.ts';

/** The addresses of a cluster. They exist only in its nodes' network namespaces, so every cluster has the same. */
export const API_SERVER = '192.168.77.1';
export const API_PORT = 6443;
/** Addresses outside of the cluster: they are node2's, on its loopback link. */
const OUTSIDE = ['203.0.113.9/32', '2001:db8::9/128'];

/** A list of one family or two, as flags of Kubernetes take it. */
export function both(families: Families, ipv4: string, ipv6: string): string {
  return families === 'dual' ? `${ipv4},${ipv6}` : ipv4;
}

export const PODS = (families: Families) => both(families, '10.244.0.0/16', 'fd00:244::/56');
export const SERVICES = (families: Families) => both(families, '10.96.0.0/16', 'fd00:96::/112');
export const nodeAddresses = (index: number) => [`192.168.77.${index}`, `fd77::${index}`] as const;
/** What the controller-manager hands out to the nodes in turn. CNI's plugins do not read it from the API. */
export const podRanges = (index: number) =>
  [`10.244.${index - 1}.0/24`, `fd00:244:0:${index - 1}::/64`] as const;

/** Joins two nodes by a veth pair; each is the other's way to everything else. */
export async function connect(one: Node, other: Node, families: Families): Promise<void> {
  await ip(one, 'link', 'add', 'v1', 'type', 'veth', 'peer', 'name', 'v2', 'netns', `${other.pid}`);
  await Promise.all([address(one, families), address(other, families)]);
  const count = families === 'dual' ? 2 : 1;
  await Promise.all([routes(one, other, count), routes(other, one, count)]);
  for (const outside of OUTSIDE.slice(0, count)) await ip(other, 'addr', 'add', outside, 'dev', 'lo');
}

async function address(node: Node, families: Families): Promise<void> {
  const link = `v${node.index}`;
  const [ipv4, ipv6] = nodeAddresses(node.index);
  await ip(node, 'link', 'set', 'lo', 'up');
  await ip(node, 'addr', 'add', `${ipv4}/24`, 'dev', link);
  // Nobody else can have the address: the search for a duplicate would take two seconds.
  if (families === 'dual') await ip(node, 'addr', 'add', `${ipv6}/64`, 'dev', link, 'nodad');
  await ip(node, 'link', 'set', link, 'up');
}

async function routes(node: Node, other: Node, count: number): Promise<void> {
  const gateways = nodeAddresses(other.index).slice(0, count);
  for (const [family, gateway] of gateways.entries()) {
    await ip(node, 'route', 'add', 'default', 'via', gateway);
    await ip(node, 'route', 'add', podRanges(other.index)[family] ?? '', 'via', gateway);
  }
}

/** Process ids in the arguments are those of this machine, so only the network is entered. */
async function ip(node: Node, ...args: readonly string[]): Promise<void> {
  const entered = ['--target', `${node.pid}`, '--net', '--', 'ip', ...args];
  await succeed(run({ file: 'nsenter', args: entered }, toolEnvironment()));
}
