import type { Located } from '../text/origin.ts';
import type { Family } from './address.ts';
import { type Prefix, parsePrefix } from './prefix.ts';

interface ReservedRange {
  readonly prefix: Prefix;
  readonly rfc: string;
}

/** A range that is left alone with config files too, unless the key of that name is true. */
interface LeftAlone extends ReservedRange {
  readonly key: 'masqLinkLocal' | 'masqLinkLocalIPv6';
  /** What messages call the range. */
  readonly topic: 'link-local';
}

/**
 * What packets to and from a range get, if no config file says otherwise. Packets to `private` ranges are left alone if there is
 * no config file, with `--nomasq-all-reserved-ranges` also those to `shared` and `other` ones. Packets to `link local` ranges,
 * which no router forwards, are left alone with config files too. Packets to `multicast` ranges keep to their link, and their
 * source says which link it is: they get no chosen address. With an address of `this host`, `multicast` or `link local` no packet
 * leaves a node. Nobody outside has a route to a `private`, `shared` or `unique local` address: packets of pods with these get no
 * answer.
 */
type Kind = 'private' | 'shared' | 'other' | 'this host' | 'link local' | 'multicast' | 'unique local';

const TABLE: readonly (readonly [cidr: string, rfc: string, kind: Kind])[] = [
  ['10.0.0.0/8', 'RFC 1918', 'private'],
  ['172.16.0.0/12', 'RFC 1918', 'private'],
  ['192.168.0.0/16', 'RFC 1918', 'private'],
  // In the order of the Go agents.
  ['100.64.0.0/10', 'RFC 6598', 'shared'],
  ['192.0.0.0/24', 'RFC 6890', 'other'],
  ['192.0.2.0/24', 'RFC 5737', 'other'],
  ['192.88.99.0/24', 'RFC 7526', 'other'],
  ['198.18.0.0/15', 'RFC 6815', 'other'],
  ['198.51.100.0/24', 'RFC 5737', 'other'],
  ['203.0.113.0/24', 'RFC 5737', 'other'],
  ['240.0.0.0/4', 'RFC 5735', 'other'],
  ['0.0.0.0/8', 'RFC 1122', 'this host'],
  ['127.0.0.0/8', 'RFC 1122', 'this host'],
  // It holds the unspecified address and loopback too.
  ['::/96', 'RFC 4291', 'this host'],
  ['169.254.0.0/16', 'RFC 3927', 'link local'],
  ['fe80::/10', 'RFC 4291', 'link local'],
  ['224.0.0.0/4', 'RFC 5771', 'multicast'],
  ['255.255.255.255/32', 'RFC 919', 'multicast'],
  ['ff00::/8', 'RFC 4291', 'multicast'],
  ['fc00::/7', 'RFC 4193', 'unique local'],
];

const RANGES = TABLE.map(([cidr, rfc, kind]) => {
  const parsed = parsePrefix(cidr);
  if ('error' in parsed) throw new Error(`${cidr} ${parsed.error.message}`);
  return { kind, range: { prefix: parsed.prefix, rfc } };
});

export const PRIVATE_RANGES = rangesOf('private');
export const OTHER_RESERVED_RANGES = rangesOf('shared', 'other');
export const UNROUTED_RANGES = rangesOf('private', 'shared', 'unique local');
export const MULTICAST = byFamily(rangesOf('multicast'));
export const UNUSABLE_AS_SOURCE = byFamily(rangesOf('this host', 'link local', 'multicast'));
const [ipv4, ipv6] = rangesOf('link local') as [ReservedRange, ReservedRange];
/** The ranges of each family that the agent itself leaves alone, each with the key that ends that. */
export const LEFT_ALONE: Readonly<Record<Family, readonly LeftAlone[]>> = {
  IPv4: [{ key: 'masqLinkLocal', topic: 'link-local', ...ipv4 }],
  IPv6: [{ key: 'masqLinkLocalIPv6', topic: 'link-local', ...ipv6 }],
};

/** The prefix of a range, with the document that reserves it. */
export function builtIn({ prefix, rfc }: ReservedRange): Located<Prefix> {
  return { value: prefix, origin: { kind: 'built-in', basis: rfc } };
}

function rangesOf(...kinds: readonly Kind[]): readonly ReservedRange[] {
  return RANGES.filter(({ kind }) => kinds.includes(kind)).map(({ range }) => range);
}

function byFamily(ranges: readonly ReservedRange[]): Readonly<Record<Family, readonly ReservedRange[]>> {
  const of = (family: Family) => ranges.filter(({ prefix }) => prefix.family === family);
  return { IPv4: of('IPv4'), IPv6: of('IPv6') };
}
