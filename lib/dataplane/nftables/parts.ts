import { ADDRESS_BITS, type Address, type Family } from '../../cidr/address.ts';
import type { Prefix } from '../../cidr/prefix.ts';
import type { KnownExpression } from '../../netlink/expressions.ts';
import { NFPROTO } from '../../netlink/messages.ts';
import { type PortRange, portsText } from '../ports.ts';
import { translationText } from '../translation.ts';

/** A part of a rule: what nft(8) writes for it, and the expressions that nft makes of it, as the kernel tells them. */
export interface RulePart {
  readonly text: string;
  readonly expressions: readonly KnownExpression[];
}

/** NFT_REG_VERDICT; the others hold 16 bytes each. */
const VERDICT_REGISTER = 0;
const [FIRST, SECOND, THIRD] = [1, 2, 3];

/** NFT_CMP_… */
const CMP = { eq: 0, neq: 1, lt: 2 } as const;
const NFT_LOOKUP_F_INV = 1;
/** NFT_NG_RANDOM and NFT_BYTEORDER_HTON. */
const NUMGEN_RANDOM = 1;
const HOST_TO_NETWORK = 1;
const NFT_NAT_SNAT = 0;
/** NF_NAT_RANGE_…: the kernel does not use the ports of `masq` without the second one, and adds the first one to `nat`. */
const ADDRESSES = 0x1;
const PORTS = 0x2;
const RANDOM_FULLY = 0x10;

/** Where the addresses of a packet are, behind NFT_PAYLOAD_NETWORK_HEADER. */
const NETWORK_HEADER = 1;
export const FIELDS = {
  IPv4: { source: { text: 'ip saddr', offset: 12 }, destination: { text: 'ip daddr', offset: 16 } },
  IPv6: { source: { text: 'ip6 saddr', offset: 8 }, destination: { text: 'ip6 daddr', offset: 24 } },
} as const;

type Field = keyof (typeof FIELDS)[Family];

function load(family: Family, field: Field, length: number): KnownExpression {
  const { offset } = FIELDS[family][field];
  return { name: 'payload', base: NETWORK_HEADER, offset, length, to: FIRST };
}

/** Whether an address of the packet is, or is not, in a set. */
export function inSet(family: Family, field: Field, set: string, isNot = false): RulePart {
  const flags = isNot ? NFT_LOOKUP_F_INV : 0;
  return {
    text: `${FIELDS[family][field].text} ${isNot ? '!= ' : ''}@${set}`,
    expressions: [load(family, field, ADDRESS_BITS[family] / 8), { name: 'lookup', set, from: FIRST, flags }],
  };
}

/** Whether the destination is in a prefix; nothing if that is all addresses. */
export function toPrefix(
  { family, address, length }: Omit<Prefix, 'text'>,
  text: string,
): readonly RulePart[] {
  if (length === 0) return [];
  const bytes = ADDRESS_BITS[family] / 8;
  const isWhole = length % 8 === 0;
  const loaded = isWhole ? length / 8 : bytes;
  const bits = ((1n << BigInt(length)) - 1n) << BigInt(8 * bytes - length);
  const value = digits(address, bytes).slice(0, 2 * loaded);
  return [
    {
      text: `${FIELDS[family].destination.text} ${text}`,
      expressions: [
        load(family, 'destination', loaded),
        ...(isWhole ? [] : [masked(bytes, digits(bits, bytes))]),
        compared(value),
      ],
    },
  ];
}

/** NFT_FIB_RESULT_ADDRTYPE, RTN_LOCAL of linux/rtnetlink.h, and NFTA_FIB_F_…. */
const [ADDRESS_TYPE, LOCAL] = [3, '02000000'];
const FIB_KEYS = { 'fib saddr type': 1, 'fib daddr type': 2, 'fib saddr . oif type': 1 | 16 } as const;

/** Whether an address of the packet is one of the node or, for the last key, of the link by which the packet leaves. */
export function isLocal(key: keyof typeof FIB_KEYS, isNot = false): RulePart {
  const fib = { name: 'fib', to: FIRST, result: ADDRESS_TYPE, flags: FIB_KEYS[key] } as const;
  return { text: `${key} ${isNot ? '!= ' : ''}local`, expressions: [fib, compared(LOCAL, isNot)] };
}

/** What nft(8) calls the protocols that have ports, and others that it names without /etc/protocols too. */
const PROTOCOL_NUMBERS = { tcp: 6n, udp: 17n, sctp: 132n, 'ipv6-icmp': 58n } as const;
const NFT_META_L4PROTO = 16;

export function isProtocol(name: keyof typeof PROTOCOL_NUMBERS, isNot = false): RulePart {
  const meta = { name: 'meta', key: NFT_META_L4PROTO, to: FIRST } as const;
  const value = digits(PROTOCOL_NUMBERS[name], 1);
  return {
    text: `meta l4proto ${isNot ? '!= ' : ''}${name}`,
    expressions: [meta, compared(value, isNot)],
  };
}

/** The states of packets that no NAT sees: NF_CT_STATE_INVALID_BIT and NF_CT_STATE_UNTRACKED_BIT. */
export const NOT_TRACKED: RulePart = {
  text: 'ct state invalid,untracked',
  expressions: [{ name: 'ct', to: FIRST, key: 0 }, masked(4, '41000000'), compared('00000000', true)],
};

/** One of `size` packets out of `left`, at random. */
export function someOf({ size, left }: { readonly size: number; readonly left: number }): RulePart {
  return {
    text: `numgen random mod ${left} < ${size}`,
    expressions: [
      { name: 'numgen', to: FIRST, modulus: left, type: NUMGEN_RANDOM, offset: 0 },
      // Otherwise the bytes of a number of this machine would be compared from the lowest to the highest.
      { name: 'byteorder', from: FIRST, to: FIRST, operation: HOST_TO_NETWORK, length: 4, size: 4 },
      { name: 'cmp', from: FIRST, operation: CMP.lt, value: digits(BigInt(size), 4) },
    ],
  };
}

export const COUNTER: RulePart = {
  text: 'counter',
  expressions: [{ name: 'counter', bytes: 0n, packets: 0n }],
};

/** NF_DROP and NFT_RETURN. */
export const DROP = verdict('drop', 0);
export const RETURN = verdict('return', -5);

function verdict(text: string, code: number): RulePart {
  return { text, expressions: [{ name: 'immediate', to: VERDICT_REGISTER, verdict: { code } }] };
}

export interface Translation {
  /** Undefined for an address of the link. */
  readonly address: Address | undefined;
  readonly ports: PortRange | undefined;
  readonly isRandom: boolean;
}

/** Gives the packet another source. */
export function translate(family: Family, { address, ports, isRandom }: Translation): RulePart {
  const [from, to] = address === undefined ? [FIRST, SECOND] : [SECOND, THIRD];
  const portValues = ports === undefined ? [] : [...new Set([ports.first, ports.last])];
  const portRegisters = portValues.map((port, index) => {
    return { name: 'immediate', to: index === 0 ? from : to, value: digits(BigInt(port), 2) } as const;
  });
  const toPorts = ports && { fromPort: from, toPort: portValues.length === 1 ? from : to };
  const flags = (address ? ADDRESSES : 0) | (ports === undefined ? 0 : PORTS) | (isRandom ? RANDOM_FULLY : 0);
  const common = { ...toPorts, ...(flags !== 0 && { flags }) };
  const where = address ? translationText(address, ports) : ports && `:${portsText(ports)}`;
  return {
    text: [
      address ? 'snat' : 'masquerade',
      ...(where === undefined ? [] : [`to ${where}`]),
      ...(isRandom ? ['fully-random'] : []),
    ].join(' '),
    expressions: address
      ? [
          { name: 'immediate', to: FIRST, value: digits(address.value, ADDRESS_BITS[family] / 8) },
          ...portRegisters,
          {
            name: 'nat',
            type: NFT_NAT_SNAT,
            family: NFPROTO[family].protocol,
            fromAddress: FIRST,
            toAddress: FIRST,
            ...common,
          },
        ]
      : [...portRegisters, { name: 'masq', ...common }],
  };
}

function masked(length: number, mask: string): KnownExpression {
  return { name: 'bitwise', from: FIRST, to: FIRST, length, operation: 0, mask, xor: '00'.repeat(length) };
}

function compared(value: string, isNot = false): KnownExpression {
  return { name: 'cmp', from: FIRST, operation: isNot ? CMP.neq : CMP.eq, value };
}

function digits(value: bigint, bytes: number): string {
  return value.toString(16).padStart(2 * bytes, '0');
}
