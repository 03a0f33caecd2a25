import { ADDRESS_BITS, type Family, formatAddress } from '../../cidr/address.ts';
import { formatRange, type Range } from '../../cidr/ranges.ts';
import type { PortRange } from '../ports.ts';
import { portsText, translationText } from '../translation.ts';

/** What a rule can ask of a packet, as nft(8) names it, and how its values are kept in the kernel and written. */
export const KEYS = {
  'ip saddr': {
    load: { name: 'payload', base: 1, offset: 12 },
    bytes: 4,
    order: 'network',
    write: address('IPv4'),
  },
  'ip daddr': {
    load: { name: 'payload', base: 1, offset: 16 },
    bytes: 4,
    order: 'network',
    write: address('IPv4'),
  },
  'ip6 saddr': {
    load: { name: 'payload', base: 1, offset: 8 },
    bytes: 16,
    order: 'network',
    write: address('IPv6'),
  },
  'ip6 daddr': {
    load: { name: 'payload', base: 1, offset: 24 },
    bytes: 16,
    order: 'network',
    write: address('IPv6'),
  },
  'th sport': { load: { name: 'payload', base: 2, offset: 0 }, bytes: 2, order: 'network', write: numbers },
  'th dport': { load: { name: 'payload', base: 2, offset: 2 }, bytes: 2, order: 'network', write: numbers },
  'fib saddr type': {
    load: { name: 'fib', result: 3, flags: 1 },
    bytes: 4,
    order: 'host',
    write: addressType,
  },
  'fib daddr type': {
    load: { name: 'fib', result: 3, flags: 2 },
    bytes: 4,
    order: 'host',
    write: addressType,
  },
  'meta l4proto': { load: { name: 'meta', key: 16 }, bytes: 1, order: 'network', write: protocol },
  'meta mark': { load: { name: 'meta', key: 3 }, bytes: 4, order: 'host', write: mark },
  'ct mark': { load: { name: 'ct', key: 3 }, bytes: 4, order: 'host', write: mark },
  'ct state': { load: { name: 'ct', key: 0 }, bytes: 4, order: 'host', write: mark },
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

export type MatchKey = keyof typeof KEYS;

/** What a rule does, in the order in which a packet meets it. Equal texts mean the same. */
export type Statement =
  /** The key is, or is not, in a range of values, in a set, or has one of the bits. */
  | { readonly kind: 'match'; readonly key: MatchKey; readonly isNot?: boolean; readonly range: Range }
  | { readonly kind: 'match'; readonly key: MatchKey; readonly isNot?: boolean; readonly set: string }
  | { readonly kind: 'match'; readonly key: MatchKey; readonly isNot?: boolean; readonly bits: bigint }
  /** One of `size` packets out of `left`, at random. */
  | { readonly kind: 'chance'; readonly size: number; readonly left: number }
  | { readonly kind: 'counter' }
  | { readonly kind: 'verdict'; readonly verdict: VerdictName; readonly chain?: string }
  | Translation
  /** What the agent does not understand, with all its bytes. */
  | { readonly kind: 'other'; readonly text: string; readonly passes: boolean };

export interface Translation {
  readonly kind: 'masquerade' | 'snat';
  /** Undefined for an address of the link. */
  readonly address?: Range | undefined;
  readonly ports?: PortRange | undefined;
  /** NF_NAT_RANGE_… of linux/netfilter/nf_nat.h, without those that only tell of addresses and ports. */
  readonly flags: number;
}

/** NF_ACCEPT and NFT_RETURN and so on. */
export const VERDICTS = { drop: 0, accept: 1, continue: -1, jump: -3, goto: -4, return: -5 } as const;

export type VerdictName = keyof typeof VERDICTS;

/** RTN_… of linux/rtnetlink.h, as nft(8) names them. */
export const LOCAL = 2n;
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

/** The states of packets that no NAT sees: NF_CT_STATE_INVALID_BIT and NF_CT_STATE_UNTRACKED_BIT. nft(8) writes their names. */
export const INVALID = 0x41n;

/** What nft(8) calls the protocols that have ports, and others that it names without /etc/protocols too. */
export const PROTOCOL_NUMBERS = { tcp: 6n, udp: 17n, sctp: 132n, 'ipv6-icmp': 58n } as const;

/** NF_NAT_RANGE_PROTO_RANDOM, _PERSISTENT and _PROTO_RANDOM_FULLY. */
export const RANDOM_FULLY = 0x10;
const TRANSLATION_FLAGS = { random: 0x4, persistent: 0x8, 'fully-random': RANDOM_FULLY } as const;

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
    case 'other':
      return statement.text;
  }
}

function matchText(match: Extract<Statement, { readonly kind: 'match' }>): string {
  const { key, isNot = false } = match;
  if ('set' in match) return `${key} ${isNot ? '!= ' : ''}@${match.set}`;
  if ('range' in match) return `${key} ${isNot ? '!= ' : ''}${KEYS[key].write(match.range)}`;
  if (key === 'ct state' && match.bits === INVALID && !isNot) return 'ct state invalid,untracked';
  return `${key} & 0x${match.bits.toString(16)} ${isNot ? '==' : '!='} 0`;
}

function translation(family: Family, { kind, address: to, ports, flags }: Translation): string {
  const portText = ports && portsText(ports);
  const where = to === undefined ? portText && `:${portText}` : toText(family, to, ports);
  const names = Object.entries(TRANSLATION_FLAGS).flatMap(([name, bit]) =>
    (flags & bit) === 0 ? [] : [name],
  );
  const unknown = flags & ~(TRANSLATION_FLAGS.random | TRANSLATION_FLAGS.persistent | RANDOM_FULLY);
  return [
    kind,
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
  const name = Object.entries(PROTOCOL_NUMBERS).find(([, number]) => number === range.first);
  return name !== undefined && range.first === range.last ? name[0] : numbers(range);
}

function mark({ first, last }: Range): string {
  return first === last ? `0x${first.toString(16)}` : `0x${first.toString(16)}-0x${last.toString(16)}`;
}
