import { run, succeed } from '../../lab/run.ts';
import { toolEnvironment } from './environment.ts';
import type { Node } from './node.ts';
import type { Families } from './options.ts';

/** The addresses of a cluster. They exist only in its nodes' network namespaces, so every cluster has the same. */
export const API_SERVERS = ['192.168.77.1', 'fd77::1'] as const;
export const apiServer = (families: Families) => API_SERVERS[families === 'ipv6' ? 1 : 0];
export const API_PORT = 6443;
/** Addresses outside of the cluster: they are node2's, on its loopback link. */
const OUTSIDE = ['203.0.113.9/32', '2001:db8::9/128'] as const;

/** What a cluster has of a value for each family. */
export function kept<const Value>(families: Families, ipv4: Value, ipv6: Value): readonly Value[] {
  return { ipv4: [ipv4], ipv6: [ipv6], dual: [ipv4, ipv6] }[families];
}

/** In a list, as flags of Kubernetes take them. */
export const PODS = (families: Families) => kept(families, '10.244.0.0/16', 'fd00:244::/56').join();
export const SERVICES = (families: Families) => kept(families, '10.96.0.0/16', 'fd00:96::/112').join();
export const nodeAddresses = (index: number) => [`192.168.77.${index}`, `fd77::${index}`] as const;
/** What the controller-manager hands out to the nodes in turn. CNI's plugins do not read it from the API. */
export const podRanges = (index: number) =>
  [`10.244.${index - 1}.0/24`, `fd00:244:0:${index - 1}::/64`] as const;

/** Joins two nodes by a veth pair; each is the other's way to everything else. */
export async function connect(one: Node, other: Node, families: Families): Promise<void> {
  await ip(one, 'link', 'add', 'v1', 'type', 'veth', 'peer', 'name', 'v2', 'netns', `${other.pid}`);
  await Promise.all([address(one, families), address(other, families)]);
  await Promise.all([routes(one, other, families), routes(other, one, families)]);
  for (const outside of kept(families, ...OUTSIDE)) await ip(other, 'addr', 'add', outside, 'dev', 'lo');
}

async function address(node: Node, families: Families): Promise<void> {
  const link = `v${node.index}`;
  const [ipv4, ipv6] = nodeAddresses(node.index);
  await ip(node, 'link', 'set', 'lo', 'up');
  // Nobody else can have the address: the search for a duplicate would take two seconds.
  for (const own of kept(families, [`${ipv4}/24`], [`${ipv6}/64`, 'nodad']))
    await ip(node, 'addr', 'add', ...own, 'dev', link);
  await ip(node, 'link', 'set', link, 'up');
}

async function routes(node: Node, other: Node, families: Families): Promise<void> {
  const [gateways, ranges] = [nodeAddresses(other.index), podRanges(other.index)];
  for (const family of kept(families, 0, 1)) {
    await ip(node, 'route', 'add', 'default', 'via', gateways[family]);
    await ip(node, 'route', 'add', ranges[family], 'via', gateways[family]);
  }
}

/** Process ids in the arguments are those of this machine, so only the network is entered. */
async function ip(node: Node, ...args: readonly string[]): Promise<void> {
  const entered = ['--target', `${node.pid}`, '--net', '--', 'ip', ...args];
  await succeed(run({ file: 'nsenter', args: entered }, toolEnvironment()));
}
