import { isIP } from 'node:net';
import {
  type CelInput,
  type CelMap,
  CelScalar,
  type CelValue,
  celEnv,
  celFunc,
  celMethod,
  isCelError,
  listType,
  mapType,
  parse,
  plan,
} from '@bufbuild/cel';
import { strings } from '@bufbuild/cel/ext';
import { RE2 } from 're2-wasm';

/** An expression that is compiled. */
export type Program = (variables: Readonly<Record<string, CelInput>>) => CelValue;

/**
 * Compiles an expression for the environment that Kubernetes has: CEL's standard and string functions, RE2, and of
 * Kubernetes' own libraries (k8s.io/apiserver/pkg/cel/library) what our policies use of `regex` and `cidr`. The programs throw where an
 * expression cannot be evaluated.
 */
export function compile(expression: string): Program {
  const program = plan(ENV, parse(expression));
  return (variables) => {
    const value = program(variables);
    if (isCelError(value)) throw new Error(`${value.message}: ${expression}`);
    return value;
  };
}

/** A CIDR, which is a type of its own in Kubernetes: equal to another one of the same address and length. */
const CIDR = mapType(CelScalar.STRING, CelScalar.INT);

const { STRING, BOOL, INT } = CelScalar;

const patterns = new Map<string, RE2>();

/** A pattern is compiled once: its memory is never given back. */
function re2(pattern: string, flags: string): RE2 {
  const key = `${flags} ${pattern}`;
  const known = patterns.get(key) ?? new RE2(pattern, flags);
  patterns.set(key, known);
  return known;
}

const ENV = celEnv({
  re2: { compile: (pattern) => re2(pattern, 'u') },
  funcs: [
    ...strings,
    celMethod('findAll', STRING, [STRING], listType(STRING), function (pattern) {
      return (re2(pattern, 'gu').match(this) ?? []) as string[];
    }),
    celMethod('findAll', STRING, [STRING, INT], listType(STRING), function (pattern, limit) {
      return (re2(pattern, 'gu').match(this) ?? []).slice(0, Number(limit)) as string[];
    }),
    celFunc('isCIDR', [STRING], BOOL, (text) => parseCIDR(text) !== undefined),
    celFunc('cidr', [STRING], CIDR, (text) => {
      const cidr = parseCIDR(text);
      if (cidr === undefined) throw new Error(`network address parse error: ${text}`);
      return asMap(cidr);
    }),
    celMethod('masked', CIDR, [], CIDR, function () {
      const { address, length, bits } = fromMap(this);
      const hosts = 1n << (bits - length);
      return asMap({ address: address - (address % hosts), length, bits });
    }),
  ],
});

interface Cidr {
  readonly address: bigint;
  readonly length: bigint;
  readonly bits: bigint;
}

function asMap({ address, length, bits }: Cidr): Map<string, bigint> {
  // Two halves: an integer of CEL has 64 bits.
  return new Map([
    ['high', BigInt.asIntN(64, address >> 64n)],
    ['low', BigInt.asIntN(64, address)],
    ['length', length],
    ['bits', bits],
  ]);
}

function fromMap(map: CelMap): Cidr {
  const get = (key: string) => map.get(key) as bigint;
  return {
    address: (BigInt.asUintN(64, get('high')) << 64n) | BigInt.asUintN(64, get('low')),
    length: get('length'),
    bits: get('bits'),
  };
}

/** As Go's netip.ParsePrefix, without addresses of IPv4 that are mapped into IPv6: what Kubernetes takes. */
function parseCIDR(text: string): Cidr | undefined {
  const [, host = '', length = ''] = /^([^/%]*)\/(0|[1-9]\d{0,2})$/.exec(text) ?? [];
  const family = isIP(host);
  const bits = family === 4 ? 32n : 128n;
  if (family === 0 || BigInt(length) > bits) return undefined;
  const address = family === 4 ? ipv4(host) : ipv6(host);
  if (family === 6 && address >> 32n === 0xffffn) return undefined;
  return { address, length: BigInt(length), bits };
}

function ipv4(host: string): bigint {
  return host.split('.').reduce((sum, part) => sum * 256n + BigInt(part), 0n);
}

function ipv6(host: string): bigint {
  const groups = (text: string): readonly bigint[] =>
    text === ''
      ? []
      : text.split(':').flatMap((group) => {
          const dotted = group.includes('.') ? ipv4(group) : undefined;
          return dotted === undefined ? [BigInt(`0x${group}`)] : [dotted >> 16n, dotted & 0xffffn];
        });
  const [before = '', after] = host.split('::');
  const [head, tail] = [groups(before), groups(after ?? '')];
  const zeros = Array.from({ length: after === undefined ? 0 : 8 - head.length - tail.length }, () => 0n);
  return [...head, ...zeros, ...tail].reduce((sum, group) => (sum << 16n) | group, 0n);
}
