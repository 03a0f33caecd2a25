import { ADDRESS_BITS, type Family, formatAddress } from '../../cidr/address.ts';
import { hostBitsOf, type Range } from '../../cidr/ranges.ts';
import type { KnownExpression } from '../../netlink/expressions.ts';

/** A match or target of iptables in nf_tables. */
type Extension = Extract<KnownExpression, { readonly name: 'match' | 'target' }>;

interface Context {
  readonly family: Family;
}

/**
 * How a part of the private data is written: how many bytes it has, and its text, undefined if there are no words for it.
 * Numbers have the byte order of the machine, which is little-endian, except in `nat`.
 */
type Kind = readonly [bytes: number, text: KindText];
type KindText = (info: Buffer, at: number, context: Context) => string | undefined;

/** A bit: the offset of its byte, and a mask. */
type Flag = readonly [at: number, mask: number];

/** An option, which is written if its flag is set and `unless` is not, and its value is not the default. */
interface Row {
  readonly option: string;
  readonly kind?: Kind;
  readonly at?: number;
  readonly if?: Flag;
  readonly unless?: Flag;
  /** Writes `!` before the option. */
  readonly not?: Flag;
  readonly default?: string;
  /** The name under which iptables prints the extension if this option is written. */
  readonly name?: string;
}

const dashed = (first: number, last: number, dash: string) =>
  first === last ? `${first}` : `${first}${dash}${last}`;
const hexPair = (info: Buffer, at: number) =>
  [at, at + 4].map((one) => `0x${info.readUInt32LE(one).toString(16)}`).join('/');

/** A value and a mask, which is left out if it is all ones. */
const MARK: Kind = [8, (info, at) => hexPair(info, at).replace(/\/0xffffffff$/, '')];
const XMARK: Kind = [8, hexPair];
const PORTS: Kind = [4, (info, at) => dashed(info.readUInt16LE(at), info.readUInt16LE(at + 2), ':')];
const IDS: Kind = [8, (info, at) => dashed(info.readUInt32LE(at), info.readUInt32LE(at + 4), '-')];

/** A text that a zero ends. One without an end, which no tool writes, could not be read back. */
const COMMENT: Kind = [
  256,
  (info, at) => {
    const end = info.indexOf(0, at);
    return end < 0 ? undefined : quoted(info.toString('utf8', at, end));
  },
];

/** Bits with names, in the order in which iptables prints them. */
function bits(names: Readonly<Record<string, number>>): Kind {
  const known = Object.values(names).reduce((all, bit) => all | bit, 0);
  const text: KindText = (info, at) => {
    const value = info.readUInt16LE(at);
    const set = Object.entries(names).flatMap(([name, bit]) => (value & bit ? [name] : []));
    return value & ~known ? undefined : set.join();
  };
  return [2, text];
}

/** Types of addresses, XT_ADDRTYPE_… */
const TYPE_NAMES = [
  ...['UNSPEC', 'UNICAST', 'LOCAL', 'BROADCAST', 'ANYCAST', 'MULTICAST', 'BLACKHOLE'],
  ...['UNREACHABLE', 'PROHIBIT', 'THROW', 'NAT', 'XRESOLVE'],
];
const TYPES = bits(Object.fromEntries(TYPE_NAMES.map((name, bit) => [name, 1 << bit])));
const STATES = bits({
  INVALID: 1,
  NEW: 8,
  RELATED: 4,
  ESTABLISHED: 2,
  UNTRACKED: 256,
  SNAT: 64,
  DNAT: 128,
});

/** `struct xt_multiport_v1`: the side, a count, 15 ports, 15 flags for the first port of a range. */
const MULTIPORT: Kind = [
  47,
  (info, at) => {
    let text = '';
    const count = info.readUInt8(at + 1);
    for (let index = 0; index < Math.min(count, 15); index += 1) {
      const separator = info[at + 32 + index] === 1 ? ':' : ',';
      text += `${info.readUInt16LE(at + 2 + 2 * index)}${separator}`;
    }
    const option = ['--sports', '--dports', '--ports'][info.readUInt8(at)];
    return option && count <= 15 ? `${option} ${text.slice(0, -1)}` : undefined;
  },
];
/** A share of 2^31, and parts that only the other mode has. */
const PROBABILITY: Kind = [12, (info, at) => (info.readUInt32LE(at) / 2 ** 31).toFixed(11)];

/** For an ipset: a rule holds only its index. */
export const UNNAMED_SET = '(an ipset)';
const IPSET_INVERT = 1;
/** `struct xt_set_info`: an index, how many dimensions, and for each of them a flag whether it is the source. */
const SET: Kind = [
  4,
  (info, at) => {
    const [dimensions, flags] = [info.readUInt8(at + 2), info.readUInt8(at + 3)];
    const sides = Array.from({ length: dimensions }, (_, index) => (flags & (2 << index) ? 'src' : 'dst'));
    return flags >> (dimensions + 1) === 0 ? `${UNNAMED_SET} ${sides.join()}` : undefined;
  },
];

/** Flags of `struct nf_nat_range`, and of `masq`. */
export const NAT = { addresses: 1, ports: 2, random: 4, persistent: 8, fully: 16 } as const;

/** Ports of `struct nf_nat_range`, in network byte order. */
const natPorts = (info: Buffer, at: number) => dashed(info.readUInt16BE(at), info.readUInt16BE(at + 2), '-');

/** Two addresses; those of IPv4 are the first bytes of their fields. */
function rangeAt(info: Buffer, at: number, fieldBytes: 4 | 16, family: Family): Range {
  const bytes = ADDRESS_BITS[family] / 8;
  const address = (start: number) => BigInt(`0x${info.toString('hex', start, start + bytes)}`);
  return { first: address(at), last: address(at + fieldBytes) };
}

/** Addresses and ports of `struct nf_nat_range`, after its flags; IPv4 has a shorter one in the older revisions. */
function natRange(fieldBytes: 4 | 16): Kind {
  const text: KindText = (info, at, { family }) => {
    const flags = info.readUInt32LE(at - 4);
    const { first, last } = rangeAt(info, at, fieldBytes, family);
    const ends = [...new Set([first, last])].map((one) => addressText(family, one)).join('-');
    const addresses = flags & NAT.addresses ? ends : '';
    if (!(flags & NAT.ports)) return addresses;
    return `${family === 'IPv6' ? `[${addresses}]` : addresses}:${natPorts(info, at + 2 * fieldBytes)}`;
  };
  return [2 * fieldBytes + 4, text];
}

/** NETMAP: the edges of a prefix. */
const natPrefix = (fieldBytes: 4 | 16): Kind => [
  2 * fieldBytes,
  (info, at, { family }) => prefixText(family, rangeAt(info, at, fieldBytes, family)),
];

/** The options of a target that translates: how, and where its flags are. */
function nat(flags: number, how: Row): readonly Row[] {
  return [
    how,
    { option: '--random', if: [flags, NAT.random] },
    { option: '--random-fully', if: [flags, NAT.fully] },
    { option: '--persistent', if: [flags, NAT.persistent] },
  ];
}

/** The count of ranges before the range that IPv4 has in the older revisions: always 1. It says nothing more. */
const ONE: Row = { option: '', kind: [4, () => ''], at: 0 };
/** Where the flags are in the longer form of a range, and in that of IPv4. */
const [LONG, SHORT] = [0, 4];
const toPorts = (flags: number, at: number) =>
  nat(flags, { option: '--to-ports', kind: [4, natPorts], at, if: [flags, NAT.ports] });
const toSource = (flags: number, fieldBytes: 4 | 16) =>
  nat(flags, {
    option: '--to-source',
    kind: natRange(fieldBytes),
    at: flags + 4,
    if: [flags, NAT.addresses | NAT.ports],
  });
const toPrefix = (flags: number, fieldBytes: 4 | 16): Row => {
  return { option: '--to', kind: natPrefix(fieldBytes), at: flags + 4, if: [flags, NAT.addresses] };
};

const ANY_PORTS = '0:65535';
/** XT_CONNTRACK_STATE_ALIAS: it was written as a match `state`. */
const ALIAS: Flag = [147, 0x20];

/**
 * The options of extensions, by name and revision, and by family if they differ (linux/netfilter/xt_*.h): those that programs and
 * people use in chains behind POSTROUTING of nat and PREROUTING of raw.
 */
const LAYOUTS: Readonly<Record<string, readonly Row[]>> = {
  'comment 0': [{ option: '--comment', kind: COMMENT, at: 0 }],
  'addrtype 1': [
    { option: '--src-type', kind: TYPES, at: 0, default: '', not: [4, 1] },
    { option: '--dst-type', kind: TYPES, at: 2, default: '', not: [4, 2] },
    { option: '--limit-iface-in', if: [4, 4] },
    { option: '--limit-iface-out', if: [4, 8] },
  ],
  'mark 1': [{ option: '--mark', kind: MARK, at: 0, not: [8, 1] }],
  'connmark 1': [{ option: '--mark', kind: MARK, at: 0, not: [8, 1] }],
  'tcp 0': [
    { option: '--sport', kind: PORTS, at: 0, default: ANY_PORTS, not: [11, 1] },
    { option: '--dport', kind: PORTS, at: 4, default: ANY_PORTS, not: [11, 2] },
  ],
  'udp 0': [
    { option: '--sport', kind: PORTS, at: 0, default: ANY_PORTS, not: [8, 1] },
    { option: '--dport', kind: PORTS, at: 4, default: ANY_PORTS, not: [8, 2] },
  ],
  'multiport 1': [{ option: '', kind: MULTIPORT, at: 0, not: [47, 1] }],
  'conntrack 3': [
    { option: '--state', name: 'state', kind: STATES, at: 150, if: ALIAS, not: [148, 1] },
    { option: '--ctstate', kind: STATES, at: 150, if: [146, 1], unless: ALIAS, not: [148, 1] },
    { option: '--ctdir ORIGINAL', if: [147, 0x10], unless: [149, 0x10] },
    { option: '--ctdir REPLY', if: [149, 0x10] },
  ],
  'statistic 0': [
    { option: '--mode random', unless: [0, 1] },
    { option: '--probability', kind: PROBABILITY, at: 4, unless: [0, 1], not: [2, 1] },
  ],
  'set 4': [{ option: '--match-set', kind: SET, at: 0, not: [3, IPSET_INVERT] }],
  'owner 1': [
    { option: '--socket-exists', if: [16, 4], not: [17, 4] },
    { option: '--uid-owner', kind: IDS, at: 0, if: [16, 1], not: [17, 1] },
    { option: '--gid-owner', kind: IDS, at: 8, if: [16, 2], not: [17, 2] },
  ],
  'MASQUERADE 0 IPv4': [ONE, ...toPorts(SHORT, 16)],
  'MASQUERADE 0 IPv6': toPorts(LONG, 36),
  'SNAT 0 IPv4': [ONE, ...toSource(SHORT, 4)],
  'SNAT 1 IPv6': toSource(LONG, 16),
  'NETMAP 0 IPv4': [ONE, toPrefix(SHORT, 4)],
  'NETMAP 0 IPv6': [toPrefix(LONG, 16)],
  'MARK 2': [{ option: '--set-xmark', kind: XMARK, at: 0 }],
  'CT 2': [
    { option: '', name: 'NOTRACK', if: [0, 2] },
    { option: '--notrack', if: [0, 1], unless: [0, 2] },
  ],
};

/**
 * The name and options of a match or target, as `iptables -S` prints them after `-m` or `-j`; undefined if its data is not known,
 * or holds what these words do not say.
 */
export function extensionText(
  { extension = '', revision = 0, info = '' }: Extension,
  context: Context,
): string | undefined {
  const key = `${extension} ${revision}`;
  const rows = LAYOUTS[key] ?? LAYOUTS[`${key} ${context.family}`];
  return rows && rowsText(extension, rows, Buffer.from(info, 'hex'), context);
}

function rowsText(
  extension: string,
  rows: readonly Row[],
  info: Buffer,
  context: Context,
): string | undefined {
  // What no row has read must be zero.
  const rest = Buffer.from(info);
  let name = extension;
  const words: string[] = [];
  for (const row of rows) {
    const isAsked = take(row.if, true) && !has(row.unless);
    if (!isAsked) continue;
    const text = valueText(row, info, rest, context);
    if (text === undefined) return undefined;
    const isNot = row.not !== undefined && take(row.not, false);
    if (text === row.default && !isNot) continue;
    name = row.name ?? name;
    words.push(isNot ? '!' : '', row.option, text);
  }
  return rest.equals(Buffer.alloc(rest.length)) ? [name, ...words].filter(Boolean).join(' ') : undefined;

  function has(flag: Flag | undefined): boolean {
    return flag !== undefined && ((info[flag[0]] ?? 0) & flag[1]) !== 0;
  }

  function take(flag: Flag | undefined, absent: boolean): boolean {
    if (flag === undefined) return absent;
    rest[flag[0]] = (rest[flag[0]] ?? 0) & ~flag[1];
    return has(flag);
  }
}

/** The value of an option, whose bytes are then understood; undefined if the data is shorter or has no words. */
function valueText({ kind, at = 0 }: Row, info: Buffer, rest: Buffer, context: Context): string | undefined {
  if (kind === undefined) return '';
  if (info.length < at + kind[0]) return undefined;
  rest.fill(0, at, at + kind[0]);
  return kind[1](info, at, context);
}

/** Characters of a value that needs no quotes (libxtables, xtables_save_string). */
const PLAIN = /^[\w-]+$/;

export function quoted(text: string): string {
  return PLAIN.test(text) ? text : `"${text.replace(/["\\']/g, '\\$&')}"`;
}

/** An address as inet_ntop(3) writes it: one that holds an IPv4 address ends with that. */
function addressText(family: Family, value: bigint): string {
  const high = value >> 32n;
  const isDotted = family === 'IPv6' && (high === 0xffffn || (high === 0n && value > 0xffffn));
  if (!isDotted) return formatAddress({ family, value });
  return `${high === 0n ? '::' : '::ffff:'}${formatAddress({ family: 'IPv4', value: value & 0xffffffffn })}`;
}

/** A prefix as iptables writes it; undefined for another range. */
export function prefixText(family: Family, range: Range): string | undefined {
  const hostBits = hostBitsOf(range);
  return hostBits === undefined
    ? undefined
    : `${addressText(family, range.first)}/${ADDRESS_BITS[family] - hostBits}`;
}
