import { type Box, createNeighbour, type HeldBox } from './box.ts';
import { HAS_IPV6 } from './ipv6.ts';
import { owning } from './owning.ts';
import { ip } from './pod-links.ts';
import { succeed } from './run.ts';
import { type Seen, type Sender, startWitness, type Witness } from './volley.ts';

/** A pod, its node, and all the world behind the node, each in a network namespace of its own. */
export interface Network extends Sender {
  readonly node: Box;
  readonly pod: Box;
  readonly outside: HeldBox;
  /** Sees what arrives outside. */
  readonly witness: Witness;
  /** Sends a UDP packet from the pod and returns the source that it had outside. */
  sourceSeen(destination: string): Promise<Seen>;
}

/** The address that a packet of the pod has where nothing masquerades it. */
export const POD = { IPv4: '10.244.1.2', IPv6: 'fd00:244:1::2' } as const;

/** The address that the node gives to what it masquerades. */
export const NODE = { IPv4: '192.0.2.1', IPv6: '2001:db8::1' } as const;

const EVERYWHERE: readonly string[] = ['0.0.0.0/0', '::/0'];

/** The node, as the pod reaches it. */
export const GATEWAY = { IPv4: '10.244.1.1', IPv6: 'fd00:244:1::1' } as const;
export const OUTSIDE = { IPv4: '192.0.2.254', IPv6: '2001:db8::fe' } as const;
export const POD_NETWORK = { IPv4: '10.244.1.0/24', IPv6: 'fd00:244:1::/64' } as const;
export const UPLINK_NETWORK = { IPv4: '192.0.2.0/24', IPv6: '2001:db8::/64' } as const;

/**
 * Joins a pod and an outside to the node. The node stays its owner's, who must dispose of it after the network.
 *
 * @param prefixes where every packet to the outside arrives, whatever its address; the networks of pod and node are exempt.
 */
export const createNetwork = (node: Box, prefixes: readonly string[] = EVERYWHERE): Promise<Network> =>
  owning(async (stack) => {
    const pod = stack.use(await createNeighbour(node));
    const outside = stack.use(await createNeighbour(node));
    await setUpLinks(node, pod, outside, prefixes);
    const witness = stack.use(await startWitness(outside));
    const { sourcesSeen } = stack.use(await witness.openSender(pod));
    return {
      node,
      pod,
      outside,
      witness,
      sourcesSeen,
      async sourceSeen(destination) {
        const [seen] = await sourcesSeen([destination]);
        if (seen === undefined) throw new Error('one packet has one source');
        return seen;
      },
    };
  });

async function setUpLinks(
  node: Box,
  pod: HeldBox,
  outside: HeldBox,
  prefixes: readonly string[],
): Promise<void> {
  for (const box of [node, pod, outside]) await prepare(box);
  await ip(
    node,
    `link add pod0 type veth peer name eth0 netns ${pod.pid}`,
    `link add uplink0 type veth peer name eth0 netns ${outside.pid}`,
    ...addresses('pod0', [`${GATEWAY.IPv4}/24`, `${GATEWAY.IPv6}/64`]),
    ...addresses('uplink0', [`${NODE.IPv4}/24`, `${NODE.IPv6}/64`]),
    ...defaultRoutes(OUTSIDE),
  );
  await ip(pod, ...addresses('eth0', [`${POD.IPv4}/24`, `${POD.IPv6}/64`]), ...defaultRoutes(GATEWAY));
  await ip(
    outside,
    ...addresses('eth0', [`${OUTSIDE.IPv4}/24`, `${OUTSIDE.IPv6}/64`]),
    ...answerOn(prefixes),
  );
}

/**
 * The kernel looks into the table `local` first, so the routes back must be there too, or a prefix that
 * holds the pod's network would swallow the replies.
 */
function answerOn(prefixes: readonly string[]): readonly string[] {
  return [
    `route add ${POD_NETWORK.IPv4} via ${NODE.IPv4} table local`,
    `route add ${UPLINK_NETWORK.IPv4} dev eth0 table local`,
    `route add ${UPLINK_NETWORK.IPv6} dev eth0 table local`,
    `route add ${POD_NETWORK.IPv6} via ${NODE.IPv6} dev eth0 table local`,
    'route add fe80::/64 dev eth0 table local',
    ...prefixes.map((prefix) => `route add local ${prefix} dev lo`),
  ];
}

function addresses(link: string, cidrs: readonly string[]): readonly string[] {
  return [`link set ${link} up`, ...cidrs.map((cidr) => `address add ${cidr} dev ${link}`)];
}

function defaultRoutes(via: { readonly IPv4: string; readonly IPv6: string }): readonly string[] {
  return [`route add default via ${via.IPv4}`, `route add default via ${via.IPv6}`];
}

/** What a new link takes over: no reverse path filter, no waiting for duplicate addresses (RFC 4862). */
async function prepare(box: Box): Promise<void> {
  await sysctl(box, '1', ['ipv4/ip_forward', 'ipv6/conf/all/forwarding', 'ipv6/ip_nonlocal_bind']);
  await sysctl(box, '0', [
    'ipv4/conf/all/rp_filter',
    'ipv4/conf/default/rp_filter',
    'ipv6/conf/all/disable_ipv6',
    'ipv6/conf/default/disable_ipv6',
    'ipv6/conf/all/accept_dad',
    'ipv6/conf/default/accept_dad',
  ]);
}

async function sysctl(box: Box, value: string, names: readonly string[]): Promise<void> {
  await succeed(
    box.run(
      'tee',
      names.filter((name) => HAS_IPV6 || name.startsWith('ipv4/')).map((name) => `/proc/sys/net/${name}`),
      { input: value },
    ),
  );
}
