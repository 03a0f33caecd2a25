import { ADDRESS_BITS, type Address, type Family, parseAddress } from '../cidr/address.ts';
import { type Prefix, prefixAt } from '../cidr/prefix.ts';
import {
  difference,
  isIn,
  isInSome,
  nothing,
  type RangeSet,
  rangeOf,
  rangeSet,
  union,
} from '../cidr/ranges.ts';
import { UNUSABLE_AS_SOURCE } from '../cidr/reserved.ts';
import { allLinks, type Link } from '../netlink/links.ts';
import { RT_TABLE_MAIN, type UnicastRoute, unicastRoutes } from '../netlink/routes.ts';
import { createIsLocal } from './own-addresses.ts';

/** A route to pods, those of this node or of another one. */
export interface PodRoute {
  readonly prefix: Prefix;
  /** Much as ip-route(8) writes it: `10.244.2.0/24 dev flannel.1`. */
  readonly text: string;
  /** Whether it leads to pods of this node. */
  readonly isLocal: boolean;
}

/** Links that CNI plugins make by these names. */
const POD_LINK =
  /^(?:cni0|flannel.*|cali.*|vxlan(?:-v6)?\.calico|tunl0|wireguard\.cali|wg-v6\.cali|cilium_.*|antrea-gw0|kube-bridge|weave|ovn-k8s-.*)$/;

/** Bridges of Docker, libvirt, Podman, nerdctl, LXD, Incus and LXC. */
const FOREIGN_BRIDGE =
  /^(?:docker.*|br-[0-9a-f]{12}|virbr.*|(?:cni-)?podman.*|nerdctl.*|lxdbr.*|incusbr.*|lxcbr.*)$/;

/** Where no pod is; default routes begin there too. */
const NO_PODS = {
  IPv4: UNUSABLE_AS_SOURCE.IPv4.map(({ prefix }) => rangeOf(prefix)),
  IPv6: UNUSABLE_AS_SOURCE.IPv6.map(({ prefix }) => rangeOf(prefix)),
};

/** Where Antrea sends what is for Services, also those of load balancers (its VirtualServiceIPv4 and VirtualServiceIPv6). */
const SERVICE_GATEWAYS = ['169.254.0.253', 'fc01::aabb:ccdd:eeff'].map((text) => parseAddress(text)?.value);

/**
 * The routes that lead to pods. Of those through the node's own interface nothing tells what they lead to: they are not known.
 *
 * @throws {NetlinkError} also if the node has too many routes
 */
export async function podRoutes(families: readonly Family[]): Promise<readonly PodRoute[]> {
  const links = podLinks(await allLinks());
  if (links.size === 0) return [];
  const routes = await unicastRoutes(families, new Set(links.keys()));
  return routesToPods(links, routes, createIsLocal());
}

/**
 * A function that tells whether packets from an address come from a pod, as the routes of this node say: those to it lead by a link
 * to pods, and no longer prefix leads to another bridge, such as Docker's.
 *
 * @param except ranges that do not count
 * @throws {NetlinkError} also if the node has too many routes
 */
export async function podSources(
  families: readonly Family[],
  except: readonly Prefix[],
): Promise<(address: Address) => boolean> {
  const all = await allLinks();
  const links = podLinks(all);
  const bridges = all.filter(({ kind, index }) => kind === 'bridge' && !links.has(index));
  const routes = await unicastRoutes(
    families,
    new Set([...links.keys(), ...bridges.map(({ index }) => index)]),
  );
  const isOfBridge = (route: UnicastRoute) =>
    route.links.some((link) => bridges.some(({ index }) => index === link));
  const pods = routesToPods(links, routes, createIsLocal()).map(({ prefix }) => prefix);
  const others = routes
    .filter((route) => route.length > 0 && isOfBridge(route))
    .map(({ family, address, length }) => prefixAt(family, address, length));
  const sources = { IPv4: sourcesOf('IPv4', pods, others), IPv6: sourcesOf('IPv6', pods, others) };
  for (const { family, ...range } of except)
    sources[family] = difference(sources[family], rangeSet(family, [rangeOf({ family, ...range })]));
  return ({ family, value }) => isInSome(value, sources[family].ranges);
}

/** The addresses of pods: of two routes that hold one, the longer prefix decides. */
function sourcesOf(family: Family, pods: readonly Prefix[], others: readonly Prefix[]): RangeSet {
  const setOf = (prefixes: readonly Prefix[], length: number) =>
    rangeSet(family, prefixes.filter((one) => one.family === family && one.length === length).map(rangeOf));
  const lengths = [...new Set([...pods, ...others].map(({ length }) => length))].toSorted((a, b) => a - b);
  return lengths.reduce(
    (set, length) => difference(union(set, setOf(pods, length)), setOf(others, length)),
    nothing(family),
  );
}

/** The links that may lead to pods, by index: those with such a name, bridges with a pod at a port, and the node's ends of pairs. */
export function podLinks(all: readonly Link[]): ReadonlyMap<number, Link> {
  const pairs = all.filter(
    ({ kind, peerIsInOtherNamespace }) => peerIsInOtherNamespace && /^(?:veth|netkit)$/.test(kind ?? ''),
  );
  const masters = new Set(pairs.map(({ master }) => master));
  const bridges = all.filter(({ kind, index }) => kind === 'bridge' && masters.has(index));
  const named = all.filter(({ name }) => POD_LINK.test(name));
  const found = [...pairs, ...bridges.filter(({ name }) => !FOREIGN_BRIDGE.test(name)), ...named];
  return new Map(found.map((link) => [link.index, link]));
}

/**
 * Those of the routes that lead to pods. A pair or a bridge may also be the node's own interface, as in kind: then a default
 * route leaves by it. By a pair, each pod has a route of its own.
 *
 * @param routes that leave by these links
 * @param isOwn whether it is an address of the node, such as that of its own end of a pair
 */
export function routesToPods(
  links: ReadonlyMap<number, Link>,
  routes: readonly UnicastRoute[],
  isOwn: (address: Address) => boolean,
): readonly PodRoute[] {
  const uplinks = new Set(routes.filter(({ length }) => length === 0).flatMap((route) => route.links));
  return routes.flatMap(({ family, address, length, table, gateway, links: indices }) => {
    const isHost = length === ADDRESS_BITS[family];
    const link = indices
      .flatMap((index) => links.get(index) ?? [])
      .find(({ index, name, kind }) => {
        return POD_LINK.test(name) || (!uplinks.has(index) && (kind === 'bridge' || isHost));
      });
    if (link === undefined || (isHost && isOwn({ family, value: address }))) return [];
    if (NO_PODS[family].some((range) => isIn(address, range))) return [];
    if (gateway !== undefined && SERVICE_GATEWAYS.includes(gateway)) return [];
    const prefix = prefixAt(family, address, length);
    const where = table === RT_TABLE_MAIN ? '' : ` table ${table}`;
    const isLocal = gateway === undefined || isOwn({ family, value: gateway });
    return [{ prefix, text: `${prefix.text} dev ${link.name}${where}`, isLocal }];
  });
}
