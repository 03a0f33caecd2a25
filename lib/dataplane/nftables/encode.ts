import { ADDRESS_BITS, type Family } from '../../cidr/address.ts';
import { hostBitsOf } from '../../cidr/ranges.ts';
import type { KnownExpression } from '../../netlink/expressions.ts';
import { NFPROTO } from '../../netlink/messages.ts';
import { KEYS, type Match, type MatchKey, type Statement, type Translation, VERDICTS } from './statement.ts';

/** NFT_REG_VERDICT; the others hold 16 bytes each. */
export const VERDICT_REGISTER = 0;
const [FIRST, SECOND, THIRD] = [1, 2, 3];

/** NFT_CMP_… */
export const CMP = { eq: 0, neq: 1, lt: 2, lte: 3, gt: 4, gte: 5 } as const;
export const NFT_LOOKUP_F_INV = 1;
/** NFT_NG_RANDOM and NFT_BYTEORDER_HTON. */
export const NUMGEN_RANDOM = 1;
export const HOST_TO_NETWORK = 1;
const NFT_NAT_SNAT = 0;
/** NF_NAT_RANGE_PROTO_SPECIFIED: without it the kernel does not use the ports of `masq`. */
export const PORTS = 0x2;

/**
 * The expressions of a rule, as nft(8) makes them.
 *
 * @throws {TypeError} for a statement that the agent does not write
 */
export function encode(family: Family, statements: readonly Statement[]): readonly KnownExpression[] {
  return statements.flatMap((one) => encodeStatement(family, one));
}

function encodeStatement(family: Family, statement: Statement): readonly KnownExpression[] {
  switch (statement.kind) {
    case 'match':
      return encodeMatch(statement);
    case 'chance':
      return [
        { name: 'numgen', to: FIRST, modulus: statement.left, type: NUMGEN_RANDOM, offset: 0 },
        // Otherwise the bytes of a number of this machine would be compared from the lowest to the highest.
        { name: 'byteorder', from: FIRST, to: FIRST, operation: HOST_TO_NETWORK, length: 4, size: 4 },
        { name: 'cmp', from: FIRST, operation: CMP.lt, value: digits(BigInt(statement.size), 4) },
      ];
    case 'counter':
      return [{ name: 'counter', bytes: 0n, packets: 0n }];
    case 'verdict': {
      const { chain } = statement;
      const verdict = { code: VERDICTS[statement.verdict], ...(chain !== undefined && { chain }) };
      return [{ name: 'immediate', to: VERDICT_REGISTER, verdict }];
    }
    case 'masquerade':
    case 'snat':
      return encodeTranslation(family, statement);
    case 'set':
    case 'vmap':
    case 'other':
      throw new TypeError(`the agent writes no ${statement.kind}`);
  }
}

function encodeMatch(match: Match): readonly KnownExpression[] {
  const { key, isNot = false } = match;
  const { bytes } = KEYS[key];
  const equal = isNot ? CMP.neq : CMP.eq;
  if ('set' in match) {
    const lookup = {
      name: 'lookup',
      set: match.set,
      from: FIRST,
      flags: isNot ? NFT_LOOKUP_F_INV : 0,
    } as const;
    return [load(key, bytes), lookup];
  }
  if ('mask' in match)
    return [
      load(key, bytes),
      mask(bytes, bytesOfValue(key, match.mask)),
      { name: 'cmp', from: FIRST, operation: equal, value: bytesOfValue(key, match.value) },
    ];
  const length = 8 * bytes - (hostBitsOf(match.range) ?? 8 * bytes);
  if (length === 0) throw new TypeError(`cannot write a range of ${key}`);
  const whole = Math.ceil(length / 8);
  const isWhole = length % 8 === 0;
  const loaded = isWhole ? whole : bytes;
  const value = bytesOfValue(key, match.range.first).slice(0, 2 * loaded);
  const cmp = { name: 'cmp', from: FIRST, operation: equal, value } as const;
  const bits = ((1n << BigInt(length)) - 1n) << BigInt(8 * bytes - length);
  return [load(key, loaded), ...(isWhole ? [] : [mask(bytes, digits(bits, bytes))]), cmp];
}

/** Loads the first bytes of a key into the first register. */
function load(key: MatchKey, length: number): KnownExpression {
  const { load: loading } = KEYS[key];
  return loading.name === 'payload' ? { ...loading, to: FIRST, length } : { ...loading, to: FIRST };
}

function mask(length: number, bits: string): KnownExpression {
  const xor = digits(0n, length);
  return { name: 'bitwise', from: FIRST, to: FIRST, length, operation: 0, mask: bits, xor };
}

function encodeTranslation(
  family: Family,
  { kind, address, ports, flags }: Translation,
): readonly KnownExpression[] {
  const isOne = ports === undefined || ports.first === ports.last;
  const registers = address === undefined ? [FIRST, SECOND] : [SECOND, THIRD];
  const portValues = ports === undefined ? [] : isOne ? [ports.first] : [ports.first, ports.last];
  const portRegisters = portValues.map((port, index) => ({
    name: 'immediate' as const,
    to: registers[index],
    value: digits(BigInt(port), 2),
  }));
  const [fromPort, toPort] = portRegisters.map(({ to }) => to);
  const all = flags | (ports === undefined ? 0 : PORTS);
  const common = {
    ...(fromPort !== undefined && { fromPort }),
    ...(toPort !== undefined && { toPort }),
    ...(all !== 0 && { flags: all }),
  };
  if (typeof address === 'string') throw new TypeError(`cannot write ${address}`);
  if (kind === 'masquerade') return [...portRegisters, { name: 'masq', ...common }];
  const value = digits(address?.first ?? 0n, ADDRESS_BITS[family] / 8);
  const { protocol } = NFPROTO[family];
  return [
    { name: 'immediate', to: FIRST, value },
    ...portRegisters,
    { name: 'nat', type: NFT_NAT_SNAT, family: protocol, fromAddress: FIRST, ...common },
  ];
}

/** The bytes of a value as the kernel keeps them. */
function bytesOfValue(key: MatchKey, value: bigint): string {
  const { bytes, order } = KEYS[key];
  const written = Buffer.from(digits(value, bytes), 'hex');
  return (order === 'host' ? written.reverse() : written).toString('hex');
}

function digits(value: bigint, bytes: number): string {
  return value.toString(16).padStart(2 * bytes, '0');
}
