import type { Box, HeldBox } from './box.ts';
import { HAS_IPV6 } from './ipv6.ts';
import type { PodNetwork } from './pod-networks.ts';
import { succeed } from './run.ts';

/** What kinds of links need beside their name. */
const KINDS: ReadonlyMap<string, string> = new Map([
  ['bridge', 'bridge'],
  ['wireguard', 'wireguard'],
  ['gre', 'gre local 192.0.2.1 remote 192.0.2.2'],
  ['ipip', 'ipip local 192.0.2.1 remote 192.0.2.2'],
]);

/** Makes the links, addresses and routes of a node; the other ends of its pairs are pods'. */
export async function makePodNetwork(
  node: Box,
  pods: HeldBox,
  { links, addresses = [], routes }: PodNetwork,
): Promise<void> {
  for (const [index, line] of links.entries()) {
    const [name = '', kind = '', master] = line.split(' ');
    await addLink(node, pods, name, kind, index);
    if (master !== undefined) await ip(node, `link set ${name} master ${master}`);
    await ip(node, `link set ${name} up`);
  }
  await ip(node, ...addresses.map((line) => `address add ${line}${line.includes(':') ? ' nodad' : ''}`));
  await ip(node, ...routes.map((line) => `route replace ${line}`));
}

/** Where the kernel does not have the kind, and for a dummy, the link is a pair of which both ends are the node's. */
async function addLink(node: Box, pods: HeldBox, name: string, kind: string, index: number): Promise<void> {
  const end = `type veth peer name p${index}`;
  if (kind === 'veth') return await ip(node, `link add ${name} ${end} netns ${pods.pid}`);
  if (kind === 'vxlan')
    return await ip(node, `link add ${name} type vxlan id ${index} dstport ${8000 + index}`);
  const known = KINDS.get(kind);
  const args = ['link', 'add', name, 'type', ...(known?.split(' ') ?? [])];
  if (known === undefined || (await node.run('ip', args)).code !== 0)
    await ip(node, `link add ${name} ${end}`);
}

/** Commands of ip(8), without those of IPv6 if the kernel does not have it. */
export async function ip(box: Box, ...commands: readonly string[]): Promise<void> {
  const possible = commands.filter((line) => HAS_IPV6 || !/:.*:/.test(line));
  await succeed(box.run('ip', ['-batch', '-'], { input: possible.map((line) => `${line}\n`).join('') }));
}
