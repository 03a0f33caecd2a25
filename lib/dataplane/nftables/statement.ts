import { ADDRESS_BITS, type Family, formatAddress } from '../../cidr/address.ts';
import { formatRange, type Range } from '../../cidr/ranges.ts';
import type { Expression } from '../../netlink/expressions.ts';
import type { PortRange } from '../ports.ts';
import { portsText, translationText } from '../translation.ts';

/** What a rule can ask of a packet, as nft(8) names it, and how its values are kept in the kernel and written. */
export const KEYS = {
  'ip saddr': field(1, 12, 4, address('IPv4')),
  'ip daddr': field(1, 16, 4, address('IPv4')),
  'ip protocol': field(1, 9, 1, protocol),
  'ip6 saddr': field(1, 8, 16, address('IPv6')),
  'ip6 daddr': field(1, 24, 16, address('IPv6')),
  'ip6 nexthdr': field(1, 6, 1, protocol),
  'th sport': field(2, 0, 2, numbers),
  'th dport': field(2, 2, 2, numbers),
  'fib saddr type': typeOfAddress(1),
  'fib daddr type': typeOfAddress(2),
  /** Of the source, as seen from the link by which the packet leaves. */
  'fib saddr . oif type': typeOfAddress(1 | 16),
  'meta protocol': { load: { name: 'meta', key: 1 }, bytes: 2, order: 'network', write: etherType },
  'meta nfproto': { load: { name: 'meta', key: 15 }, bytes: 1, order: 'network', write: nfproto },
  'meta l4proto': { load: { name: 'meta', key: 16 }, bytes: 1, order: 'network', write: protocol },
  'meta mark': { load: { name: 'meta', key: 3 }, bytes: 4, order: 'host', write: mark },
  iif: { load: { name: 'meta', key: 4 }, bytes: 4, order: 'host', write: numbers },
  oif: { load: { name: 'meta', key: 5 }, bytes: 4, order: 'host', write: numbers },
  iifname: { load: { name: 'meta', key: 6 }, bytes: 16, order: 'network', write: interfaceName },
  oifname: { load: { name: 'meta', key: 7 }, bytes: 16, order: 'network', write: interfaceName },
  'meta length': { load: { name: 'meta', key: 0 }, bytes: 4, order: 'host', write: numbers },
  'meta skuid': { load: { name: 'meta', key: 10 }, bytes: 4, order: 'host', write: numbers },
  'meta skgid': { load: { name: 'meta', key: 11 }, bytes: 4, order: 'host', write: numbers },
  'meta nftrace': { load: { name: 'meta', key: 12 }, bytes: 1, order: 'host', write: numbers },
  'meta cpu': { load: { name: 'meta', key: 20 }, bytes: 4, order: 'host', write: numbers },
  iifgroup: { load: { name: 'meta', key: 21 }, bytes: 4, order: 'host', write: numbers },
  oifgroup: { load: { name: 'meta', key: 22 }, bytes: 4, order: 'host', write: numbers },
  'meta cgroup': { load: { name: 'meta', key: 23 }, bytes: 4, order: 'host', write: numbers },
  'ct mark': { load: { name: 'ct', key: 3 }, bytes: 4, order: 'host', write: mark },
  'ct state': { load: { name: 'ct', key: 0 }, bytes: 4, order: 'host', write: states },
} as const satisfies Readonly<Record<string, KeyLayout>>;

interface KeyLayout {
  readonly load:
    | { readonly name: 'payload'; readonly base: number; readonly offset: number }
    | { readonly name: 'fib'; readonly result: number; readonly flags: number }
    | { readonly name: 'meta' | 'ct'; readonly key: number };
  readonly bytes: number;
  /** Numbers in the byte order of the machine cannot be compared but for being equal. */
  readonly order: 'network' | 'host';
  readonly write: (range: Range) => string;
}

function field(base: number, offset: number, bytes: number, write: KeyLayout['write']) {
  return { load: { name: 'payload', base, offset }, bytes, order: 'network', write } as const;
}

function typeOfAddress(flags: number) {
  return { load: { name: 'fib', result: 3, flags }, bytes: 4, order: 'host', write: addressType } as const;
}

export type MatchKey = keyof typeof KEYS;

/** What a rule does, in the order in which a packet meets it. Equal texts mean the same. */
export type Statement =
  | Match
  /** What the map has for the key decides; of a key that is not understood there is only the text. */
  | Readonly<{ kind: 'vmap'; key: MatchKey | undefined; keyText: string; map: string }>
  /** What a rule writes to a packet, or to what the kernel keeps with it: the text of the value. */
  | Readonly<{ kind: 'set'; key: MatchKey; value: string }>
  /** One of `size` packets out of `left`, at random. */
  | { readonly kind: 'chance'; readonly size: number; readonly left: number }
  | { readonly kind: 'counter' }
  | { readonly kind: 'verdict'; readonly verdict: VerdictName; readonly chain?: string }
  | Translation
  /** What the agent does not understand, with all its bytes; the last one of its expressions. */
  | Readonly<{ kind: 'other'; text: string; passes: boolean; last: Expression | undefined }>;

/** The key is, or is not, in a range of values, in a set, or has the value below the mask. */
type Match = {
  readonly kind: 'match';
  readonly key: MatchKey;
  readonly isNot?: boolean;
} & (
  | { readonly range: Range }
  | { readonly set: string }
  | { readonly mask: bigint; readonly value: bigint }
);

interface Translation {
  readonly kind: 'masquerade' | 'snat';
  /** Undefined for an address of the link; a text for what only the packet tells. */
  readonly address?: Range | string | undefined;
  readonly ports?: PortRange | undefined;
  /** NF_NAT_RANGE_… of linux/netfilter/nf_nat.h, without those that only tell of addresses and ports. */
  readonly flags: number;
}

/** NF_ACCEPT and NFT_RETURN and so on. */
export const VERDICTS = { drop: 0, accept: 1, continue: -1, jump: -3, goto: -4, return: -5 } as const;

export type VerdictName = keyof typeof VERDICTS;

/** RTN_… of linux/rtnetlink.h, as nft(8) names them. */
const ADDRESS_TYPES = [
  'unspec',
  'unicast',
  'local',
  'broadcast',
  'anycast',
  'multicast',
  'blackhole',
  'unreachable',
  'prohibit',
];

/** What nft(8) calls the bits of NF_CT_STATE_INVALID_BIT, IP_CT_NEW and so on. */
const STATES = { invalid: 1n, established: 2n, related: 4n, new: 8n, untracked: 64n } as const;

/** What nft(8) calls the protocols that have ports, and others that it names without /etc/protocols too. */
const PROTOCOL_NUMBERS = { tcp: 6n, udp: 17n, sctp: 132n, 'ipv6-icmp': 58n } as const;

/** NF_NAT_RANGE_PROTO_RANDOM, _PERSISTENT and _PROTO_RANDOM_FULLY. */
const RANDOM_FULLY = 0x10;
const TRANSLATION_FLAGS = { random: 0x4, persistent: 0x8, 'fully-random': RANDOM_FULLY } as const;
/** NF_NAT_RANGE_NETMAP: an address is replaced by that at the same place in another prefix. */
const NETMAP = 0x40;

export function statementText(family: Family, statement: Statement): string {
  switch (statement.kind) {
    case 'match':
      return matchText(statement);
    case 'chance':
      return `numgen random mod ${statement.left} < ${statement.size}`;
    case 'counter':
      return 'counter';
    case 'verdict':
      return statement.chain === undefined ? statement.verdict : `${statement.verdict} ${statement.chain}`;
    case 'masquerade':
    case 'snat':
      return translation(family, statement);
    case 'set':
      return `${statement.key} set ${statement.value}`;
    case 'vmap':
      return `${statement.keyText} vmap @${statement.map}`;
    case 'other':
      return statement.text;
  }
}

function matchText(match: Match): string {
  const { key, isNot = false } = match;
  if ('set' in match) return `${key} ${isNot ? '!= ' : ''}@${match.set}`;
  if ('range' in match) return `${key} ${isNot ? '!= ' : ''}${KEYS[key].write(match.range)}`;
  const [mask, value] = [match.mask, match.value].map((one) => KEYS[key].write({ first: one, last: one }));
  if (key === 'ct state' && match.value === 0n && isNot) return `${key} ${mask}`;
  return `${key} & ${mask} ${isNot ? '!=' : '=='} ${match.value === 0n ? 0 : value}`;
}

function translation(family: Family, { kind, address: to, ports, flags }: Translation): string {
  const portText = ports && portsText(ports);
  const range = typeof to === 'object' ? toText(family, to, ports) : to;
  const where = range ?? (portText && `:${portText}`);
  const names = Object.entries(TRANSLATION_FLAGS).flatMap(([name, bit]) =>
    (flags & bit) === 0 ? [] : [name],
  );
  const unknown = flags & ~(NETMAP | TRANSLATION_FLAGS.random | TRANSLATION_FLAGS.persistent | RANDOM_FULLY);
  return [
    (flags & NETMAP) === 0 ? kind : `${kind} prefix`,
    ...(where === undefined ? [] : [`to ${where}`]),
    ...names,
    ...(unknown === 0 ? [] : [`flags 0x${unknown.toString(16)}`]),
  ].join(' ');
}

function toText(family: Family, { first, last }: Range, ports: PortRange | undefined): string {
  if (first === last) return translationText({ family, value: first }, ports);
  const [from, to] = [first, last].map((value) => formatAddress({ family, value }));
  return ports === undefined ? `${from}-${to}` : `[${from}-${to}]:${portsText(ports)}`;
}

function address(family: Family): (range: Range) => string {
  const whole = { first: 0n, last: (1n << BigInt(ADDRESS_BITS[family])) - 1n };
  return (range) => (range.last > whole.last ? numbers(range) : formatRange(family, range));
}

function numbers({ first, last }: Range): string {
  return first === last ? `${first}` : `${first}-${last}`;
}

function addressType({ first }: Range): string {
  return ADDRESS_TYPES[Number(first)] ?? `${first}`;
}

function protocol(range: Range): string {
  return named(PROTOCOL_NUMBERS, range);
}

function etherType(range: Range): string {
  return named({ ip: 0x0800n, ip6: 0x86ddn }, range);
}

function nfproto(range: Range): string {
  return named({ ipv4: 2n, ipv6: 10n }, range);
}

function named(names: Readonly<Record<string, bigint>>, range: Range): string {
  const name = Object.entries(names).find(([, number]) => number === range.first);
  return name !== undefined && range.first === range.last ? name[0] : numbers(range);
}

function interfaceName(range: Range): string {
  return `"${linkName(range)}"`;
}

/** A name, or the beginning of names and a star: then the highest value has no zero behind it. */
export function linkName({ first, last }: Range): string {
  const [lowest = '', highest = ''] = [first, last].map((value) =>
    Buffer.from(value.toString(16).padStart(32, '0'), 'hex').toString('latin1'),
  );
  const [name = ''] = lowest.split('\0');
  return `${name}${highest[name.length] === '\0' ? '' : '*'}`;
}

function states(range: Range): string {
  const names = Object.entries(STATES).filter(([, bit]) => (range.first & bit) !== 0n);
  const all = names.reduce((bits, [, bit]) => bits | bit, 0n);
  return all === range.first && all !== 0n ? names.map(([name]) => name).join() : mark(range);
}

function mark({ first, last }: Range): string {
  return first === last ? `0x${first.toString(16)}` : `0x${first.toString(16)}-0x${last.toString(16)}`;
}
