import { type Family, formatAddress } from '../../cidr/address.ts';
import type { Expression, KnownExpression } from '../../netlink/expressions.ts';

/** Names of ipsets by index: a rule holds only the index. */
export type SetNames = ReadonlyMap<number, string>;

/** A match or target of iptables in nf_tables. */
type Extension = Extract<KnownExpression, { readonly name: 'match' | 'target' }>;

/** What an extension's private data stands for. */
export interface ExtensionText {
  /** The name and the options, as `iptables -S` prints them after `-m` or `-j`. */
  readonly words: string;
  /** Whether the words say all that the data holds. */
  readonly isExact: boolean;
}

interface Context {
  readonly family: Family;
  readonly names: SetNames | undefined;
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
const hex = (value: number) => `0x${value.toString(16)}`;
const hexPair = (info: Buffer, at: number) =>
  [hex(info.readUInt32LE(at)), hex(info.readUInt32LE(at + 4))] as const;

const U8: Kind = [1, (info, at) => `${info.readUInt8(at)}`];
const U16: Kind = [2, (info, at) => `${info.readUInt16LE(at)}`];
const U32: Kind = [4, (info, at) => `${info.readUInt32LE(at)}`];
/** A value and a mask, which is left out if it is all ones. */
const MARK: Kind = [
  8,
  (info, at) =>
    hexPair(info, at)
      .join('/')
      .replace(/\/0xffffffff$/, ''),
];
const XMARK: Kind = [8, (info, at) => hexPair(info, at).join('/')];
const MASKS: Kind = [
  8,
  (info, at) => {
    const [ctMask, nfMask] = hexPair(info, at);
    return `--nfmask ${nfMask} --ctmask ${ctMask}`;
  },
];
const PORTS: Kind = [4, (info, at) => dashed(info.readUInt16LE(at), info.readUInt16LE(at + 2), ':')];
const IDS: Kind = [8, (info, at) => dashed(info.readUInt32LE(at), info.readUInt32LE(at + 4), '-')];
/** Ports of `struct nf_nat_range`, in network byte order. */
const NAT_PORTS: Kind = [4, (info, at) => dashed(info.readUInt16BE(at), info.readUInt16BE(at + 2), '-')];
const ADDRESS: Kind = [16, (info, at, { family }) => addressText(family, bytesOfAddress(info, at, family))];
/** An address and a mask. */
const PREFIX: Kind = [
  32,
  (info, at, { family }) => {
    const [address, mask] = [at, at + 16].map((one) => bytesOfAddress(info, one, family));
    return address && mask && prefixText(family, address, mask).replace(/\/(?:32|128)$/, '');
  },
];
const ADDRESSES: Kind = [
  32,
  (info, at, context) => `${ADDRESS[1](info, at, context)}-${ADDRESS[1](info, at + 16, context)}`,
];
const MAC: Kind = [6, (info, at) => info.toString('hex', at, at + 6).replace(/..(?!$)/g, '$&:')];

function bytesOfAddress(info: Buffer, at: number, family: Family): Buffer {
  return info.subarray(at, at + (family === 'IPv4' ? 4 : 16));
}

/** A text that a zero ends. One without an end, which no tool writes, could not be read back. */
function string(bytes: number, write = quoted): Kind {
  const hasEnd = (info: Buffer, at: number) => info.subarray(at, at + bytes).includes(0);
  return [bytes, (info, at) => (hasEnd(info, at) ? write(stringAt(info, at, bytes)) : undefined)];
}

/** What says nothing more than the other parts. */
function ignored(bytes: number, at: number): Row {
  return { option: '', kind: [bytes, () => ''], at };
}

function stringAt(info: Buffer, at: number, bytes: number): string {
  const text = info.subarray(at, at + bytes);
  const end = text.indexOf(0);
  return text.toString('utf8', 0, end < 0 ? bytes : end);
}

/** The name of a link, with a plus if it is only a beginning, and a mask that says the same. */
const LINK: Kind = [32, (info, at) => stringAt(info, at, 16)];

/** Bits with names, in the order in which iptables prints them. */
function bits(bytes: 1 | 2, names: Readonly<Record<string, number>>, none = ''): Kind {
  const known = Object.values(names).reduce((all, bit) => all | bit, 0);
  const text: KindText = (info, at) => {
    const value = info.readUIntLE(at, bytes);
    const set = Object.entries(names).flatMap(([name, bit]) => (value & bit ? [name] : []));
    return value & ~known ? undefined : set.join() || none;
  };
  return [bytes, text];
}

const named = (...names: readonly string[]) => Object.fromEntries(names.map((name, bit) => [name, 1 << bit]));

/** Types of addresses, XT_ADDRTYPE_… */
const TYPES = bits(
  2,
  named(
    ...['UNSPEC', 'UNICAST', 'LOCAL', 'BROADCAST', 'ANYCAST', 'MULTICAST', 'BLACKHOLE'],
    ...['UNREACHABLE', 'PROHIBIT', 'THROW', 'NAT', 'XRESOLVE'],
  ),
);
const STATES = bits(2, {
  INVALID: 1,
  NEW: 8,
  RELATED: 4,
  ESTABLISHED: 2,
  UNTRACKED: 256,
  SNAT: 64,
  DNAT: 128,
});
const STATUSES = bits(2, { EXPECTED: 1, SEEN_REPLY: 2, ASSURED: 4, CONFIRMED: 8 });
const FLAGS = bits(1, named('FIN', 'SYN', 'RST', 'PSH', 'ACK', 'URG'), 'NONE');
/** A mask, and what must be in it. */
export const TCP_FLAGS: Kind = [
  2,
  (info, at, context) =>
    info[at] === 0x3f && info[at + 1] === 0x3f
      ? 'FIN,SYN,RST,PSH,ACK,URG FIN,SYN,RST,PSH,ACK,URG'
      : [at, at + 1].map((one) => FLAGS[1](info, one, context)).join(' '),
];

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
/** A type, and the first and last code. */
const ICMP: Kind = [
  3,
  (info, at) => {
    const [type = 0, first = 0, last] = info.subarray(at, at + 3);
    const isAny = first === 0 && last === 0xff;
    if (isAny) return type === 0xff ? 'any' : `${type}`;
    return first === last ? `${type}/${first}` : undefined;
  },
];
/** Every so many packets less one, the first of them, and how many the kernel has counted. */
const NTH: Kind = [12, (info, at) => `${info.readUInt32LE(at) + 1} --packet ${info.readUInt32LE(at + 4)}`];

/** For an ipset whose index has no name. */
const UNNAMED_SET = '[an ipset]';
const IPSET_INVERT = 1;
/** `struct xt_set_info`: an index, how many dimensions, and for each of them a flag whether it is the source. */
const SET: Kind = [
  4,
  (info, at, { names }) => {
    const [dimensions, flags] = [info.readUInt8(at + 2), info.readUInt8(at + 3)];
    const sides = Array.from({ length: dimensions }, (_, index) => (flags & (2 << index) ? 'src' : 'dst'));
    const name = names?.get(info.readUInt16LE(at)) ?? UNNAMED_SET;
    return flags >> (dimensions + 1) === 0 ? `${name} ${sides.join()}` : undefined;
  },
];

/** Flags of `struct nf_nat_range`, and of `masq`. */
export const NAT = { addresses: 1, ports: 2, random: 4, persistent: 8, fully: 16, offset: 32 } as const;

/** Addresses and ports of `struct nf_nat_range`, after its flags; IPv4 has a shorter one in the older revisions. */
function natRange(addressBytes: 4 | 16): Kind {
  const text: KindText = (info, at, { family }) => {
    const flags = info.readUInt32LE(at - 4);
    const [first, last] = [at, at + addressBytes].map((one) =>
      addressText(family, bytesOfAddress(info, one, family)),
    );
    const range = first === last ? first : `${first}-${last}`;
    const ports =
      flags & NAT.ports ? `:${NAT_PORTS[1](info, at + 2 * addressBytes, { family, names: undefined })}` : '';
    const isBracketed = family === 'IPv6' && ports !== '';
    return `${flags & NAT.addresses ? (isBracketed ? `[${range}]` : range) : ''}${ports}`;
  };
  return [2 * addressBytes + 4, text];
}

/** The same with the port at which the ports begin that the range stands for (`struct nf_nat_range2`). */
const NAT_RANGE_2: Kind = [
  38,
  (info, at, context) => {
    const hasOffset = info.readUInt32LE(at - 4) & NAT.offset;
    return `${natRange(16)[1](info, at, context)}${hasOffset ? `/${info.readUInt16BE(at + 36)}` : ''}`;
  },
];

/** NETMAP: the edges of a prefix. */
function natPrefix(addressBytes: 4 | 16): Kind {
  const text: KindText = (info, at, { family }) => {
    const [first, last] = [at, at + addressBytes].map((one) => bytesOfAddress(info, one, family));
    const mask = first && last && Buffer.from(first.map((byte, index) => ~(byte ^ (last[index] ?? 0))));
    return first && mask && prefixText(family, first, mask);
  };
  return [2 * addressBytes, text];
}

/** The options of a target that translates, whose flags are at an offset. */
function nat(flags: number, ...rows: readonly Row[]): readonly Row[] {
  return [
    ...rows,
    { option: '--random', if: [flags, NAT.random] },
    { option: '--random-fully', if: [flags, NAT.fully] },
    { option: '--persistent', if: [flags, NAT.persistent] },
  ];
}

/** The count of ranges before the range that IPv4 has in the older revisions: always 1. */
const ONE = ignored(4, 0);
/** The flags, in the longer form of a range and in that of IPv4, and what follows the flags. */
const [LONG, SHORT] = [0, 4];
const portsOf = (flags: number, at: number) =>
  nat(flags, { option: '--to-ports', kind: NAT_PORTS, at, if: [flags, NAT.ports] });
const toRange = (option: string, flags: number, kind: Kind) =>
  nat(flags, { option, kind, at: flags + 4, if: [flags, NAT.addresses | NAT.ports | NAT.offset] });
const toPrefix = (flags: number, bytes: 4 | 16): Row => {
  return { option: '--to', kind: natPrefix(bytes), at: flags + 4, if: [flags, NAT.addresses] };
};

const ANY_PORTS = '0:65535';
const [CT_FLAGS, CT_INVERT] = [146, 148];
const CT_ALIAS = [CT_FLAGS + 1, 0x20] as const;
const ctRow = (option: string, kind: Kind, at: number, bit: number): Row => {
  const [byte, mask] = [bit >> 3, 1 << (bit & 7)];
  return { option, kind, at, if: [CT_FLAGS + byte, mask], not: [CT_INVERT + byte, mask] };
};
/** Ports, whose ends are in another place. */
const CT_PORTS: Kind = [2, (info, at) => dashed(info.readUInt16LE(at), info.readUInt16LE(at + 16), ':')];
const ALIAS_STATE = ctRow('--state', STATES, 150, 0);
/** Revision 2 adds a shift, which is not known here, before the mode. */
const connmark = (mode: number): readonly Row[] => [
  { option: '--set-xmark', kind: XMARK, at: 0, unless: [mode, 3] },
  { option: '--save-mark', kind: MASKS, at: 4, if: [mode, 1] },
  { option: '--restore-mark', kind: MASKS, at: 4, if: [mode, 2] },
  { ...ignored(4, 8), unless: [mode, 3] },
];
/** How many transformations IPsec must have made: with two, there would be more words. */
const AT_MOST_ONE: Kind = [2, (info, at) => (info.readUInt16LE(at) <= 1 ? '' : undefined)];
const POLICY_FLAGS = 304;
const icmp = (option: string): readonly Row[] => [{ option, kind: ICMP, at: 0, not: [3, 1] }];

/** The options of extensions, by name and revision, and by family if they differ (linux/netfilter/xt_*.h). */
const LAYOUTS: Readonly<Record<string, readonly Row[]>> = {
  'comment 0': [{ option: '--comment', kind: string(256), at: 0 }],
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
    { option: '--tcp-option', kind: U8, at: 8, default: '0', not: [11, 8] },
    { option: '--tcp-flags', kind: TCP_FLAGS, at: 9, default: 'NONE NONE', not: [11, 4] },
  ],
  'udp 0': [
    { option: '--sport', kind: PORTS, at: 0, default: ANY_PORTS, not: [8, 1] },
    { option: '--dport', kind: PORTS, at: 4, default: ANY_PORTS, not: [8, 2] },
  ],
  'sctp 0': [
    { option: '--sport', kind: PORTS, at: 4, if: [284, 1], not: [288, 1] },
    { option: '--dport', kind: PORTS, at: 0, if: [284, 2], not: [288, 2] },
    ignored(276, 8),
  ],
  'multiport 1': [{ option: '', kind: MULTIPORT, at: 0, not: [47, 1] }],
  'conntrack 3': [
    // The ends of ranges of ports.
    ignored(8, 154),
    { ...ALIAS_STATE, name: 'state', if: CT_ALIAS },
    { ...ctRow('--ctstate', STATES, 150, 0), unless: CT_ALIAS },
    ctRow('--ctproto', U16, 136, 1),
    ctRow('--ctorigsrc', PREFIX, 0, 2),
    ctRow('--ctorigdst', PREFIX, 32, 3),
    ctRow('--ctreplsrc', PREFIX, 64, 4),
    ctRow('--ctrepldst', PREFIX, 96, 5),
    ctRow('--ctorigsrcport', CT_PORTS, 138, 8),
    ctRow('--ctorigdstport', CT_PORTS, 140, 9),
    ctRow('--ctreplsrcport', CT_PORTS, 142, 10),
    ctRow('--ctrepldstport', CT_PORTS, 144, 11),
    ctRow('--ctstatus', STATUSES, 152, 6),
    { option: '--ctdir ORIGINAL', if: [147, 0x10], unless: [149, 0x10] },
    { option: '--ctdir REPLY', if: [149, 0x10] },
  ],
  'statistic 0': [
    { option: '--mode random', unless: [0, 1] },
    { option: '--mode nth', if: [0, 1] },
    { option: '--probability', kind: PROBABILITY, at: 4, unless: [0, 1], not: [2, 1] },
    { option: '--every', kind: NTH, at: 4, if: [0, 1], not: [2, 1] },
  ],
  'physdev 0': [
    { option: '--physdev-is-in', if: [65, 8], not: [64, 8] },
    { option: '--physdev-in', kind: LINK, at: 0, if: [65, 1], not: [64, 1] },
    { option: '--physdev-is-out', if: [65, 16], not: [64, 16] },
    { option: '--physdev-out', kind: LINK, at: 32, if: [65, 2], not: [64, 2] },
    { option: '--physdev-is-bridged', if: [65, 4], not: [64, 4] },
  ],
  'set 4': [{ option: '--match-set', kind: SET, at: 0, not: [3, IPSET_INVERT] }],
  'mac 0': [{ option: '--mac-source', kind: MAC, at: 0, not: [8, 1] }],
  'iprange 1': [
    { option: '--src-range', kind: ADDRESSES, at: 0, if: [64, 1], not: [64, 16] },
    { option: '--dst-range', kind: ADDRESSES, at: 32, if: [64, 2], not: [64, 32] },
  ],
  'owner 1': [
    { option: '--socket-exists', if: [16, 4], not: [17, 4] },
    { option: '--uid-owner', kind: IDS, at: 0, if: [16, 1], not: [17, 1] },
    { option: '--gid-owner', kind: IDS, at: 8, if: [16, 2], not: [17, 2] },
    { option: '--suppl-groups', if: [16, 8] },
  ],
  'icmp 0': icmp('--icmp-type'),
  'icmp6 0': icmp('--icmpv6-type'),
  'policy 0': [
    { option: '--dir in', if: [POLICY_FLAGS, 1] },
    { option: '--dir out', if: [POLICY_FLAGS, 2] },
    { option: '--pol none', if: [POLICY_FLAGS, 4] },
    { option: '--pol ipsec', kind: AT_MOST_ONE, at: POLICY_FLAGS + 2, unless: [POLICY_FLAGS, 4] },
    { option: '--strict', if: [POLICY_FLAGS, 8] },
  ],
  'recent 1': [
    { option: '--rcheck', if: [8, 1], not: [9, 1] },
    { option: '--set', if: [8, 2], not: [9, 1] },
    { option: '--update', if: [8, 4], not: [9, 1] },
    { option: '--remove', if: [8, 8], not: [9, 1] },
    { option: '--seconds', kind: U32, at: 0, default: '0' },
    { option: '--reap', if: [8, 32] },
    { option: '--hitcount', kind: U32, at: 4, default: '0' },
    { option: '--rttl', if: [8, 16] },
    { option: '--name', kind: string(200, (text) => text), at: 10 },
    { option: '--mask', kind: ADDRESS, at: 212 },
    { option: '--rdest', if: [210, 1] },
    { option: '--rsource', unless: [210, 1] },
  ],
  'MASQUERADE 0 IPv4': [ONE, ...portsOf(SHORT, 16)],
  'MASQUERADE 0 IPv6': portsOf(LONG, 36),
  'REDIRECT 0 IPv4': [ONE, ...portsOf(SHORT, 16)],
  'REDIRECT 0 IPv6': portsOf(LONG, 36),
  'SNAT 0 IPv4': [ONE, ...toRange('--to-source', SHORT, natRange(4))],
  'SNAT 1 IPv6': toRange('--to-source', LONG, natRange(16)),
  'DNAT 0 IPv4': [ONE, ...toRange('--to-destination', SHORT, natRange(4))],
  'DNAT 1 IPv6': toRange('--to-destination', LONG, natRange(16)),
  'DNAT 2': toRange('--to-destination', LONG, NAT_RANGE_2),
  'NETMAP 0 IPv4': [ONE, toPrefix(SHORT, 4)],
  'NETMAP 0 IPv6': [toPrefix(LONG, 16)],
  'MARK 2': [{ option: '--set-xmark', kind: XMARK, at: 0 }],
  'CONNMARK 1': connmark(12),
  'CONNMARK 2': connmark(14),
  'LOG 0': [
    { option: '--log-prefix', kind: string(30), at: 2, default: '""' },
    { option: '--log-level', kind: U8, at: 0, default: '4' },
    { option: '--log-tcp-sequence', if: [1, 1] },
    { option: '--log-tcp-options', if: [1, 2] },
    { option: '--log-ip-options', if: [1, 4] },
    { option: '--log-uid', if: [1, 8] },
    { option: '--log-macdecode', if: [1, 0x20] },
  ],
  'CT 2': [
    { option: '', name: 'NOTRACK', if: [0, 2] },
    { option: '--notrack', if: [0, 1], unless: [0, 2] },
    { option: '--zone', kind: U16, at: 2, default: '0' },
  ],
};

/** The indexes of the ipsets that a rule asks for. */
export function ipsetsIn(expressions: readonly Expression[]): readonly number[] {
  return expressions.flatMap((one) =>
    one.name === 'match' && one.extension === 'set' && one.info !== undefined
      ? Buffer.from(one.info.slice(0, 4), 'hex').readUInt16LE()
      : [],
  );
}

/** A match or target of iptables; undefined if its data is not known, or holds what these words do not say. */
export function extensionText(
  { extension = '', revision = 0, info = '' }: Extension,
  context: Context,
): ExtensionText | undefined {
  const key = `${extension} ${revision}`;
  const rows = LAYOUTS[key] ?? LAYOUTS[`${key} ${context.family}`];
  return rows && rowsText(extension, rows, Buffer.from(info, 'hex'), context);
}

function rowsText(
  extension: string,
  rows: readonly Row[],
  info: Buffer,
  context: Context,
): ExtensionText | undefined {
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
  const isUnderstood = rest.every((byte) => byte === 0);
  const text = [name, ...words].filter(Boolean).join(' ');
  return isUnderstood ? { words: text, isExact: !text.includes(UNNAMED_SET) } : undefined;

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
function addressText(family: Family, bytes: Buffer): string {
  const value = BigInt(`0x${bytes.toString('hex')}`);
  const high = value >> 32n;
  const isDotted = family === 'IPv6' && (high === 0xffffn || (high === 0n && value > 0xffffn));
  if (!isDotted) return formatAddress({ family, value });
  return `${high === 0n ? '::' : '::ffff:'}${formatAddress({ family: 'IPv4', value: value & 0xffffffffn })}`;
}

/** An address and the length of its mask, or the mask if it has gaps. */
export function prefixText(family: Family, address: Buffer, mask: Buffer): string {
  const digits = [...mask].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  const length = /^1*/.exec(digits)?.[0].length ?? 0;
  const hasGaps = digits.includes('1', length);
  const network = Buffer.from(address.map((byte, index) => byte & (mask[index] ?? 0)));
  return `${addressText(family, network)}/${hasGaps ? addressText(family, mask) : length}`;
}
