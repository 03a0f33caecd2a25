import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Family } from '../../../lib/cidr/address.ts';
import { rangeOf } from '../../../lib/cidr/ranges.ts';
import { decode } from '../../../lib/dataplane/nftables/decode.ts';
import { encode } from '../../../lib/dataplane/nftables/encode.ts';
import { type Statement, statementText } from '../../../lib/dataplane/nftables/statement.ts';
import {
  type Expression,
  type KnownExpression,
  readExpression,
  writeExpression,
} from '../../../lib/netlink/expressions.ts';
import { crowdedPrefix } from '../cidr/arbitrary.ts';

const TEN = { first: 0x0a00_0000n, last: 0x0aff_ffffn };
const LOCAL = { first: 2n, last: 2n };
const TCP = { first: 6n, last: 6n };
const ADDRESS = { first: 0x0102_0304n, last: 0x0102_0304n };

/** Expressions as `nft --debug=netlink` shows them, in its words and order. If none is named, the register is 1. */
const load = (offset: number, length = 4) => ({ name: 'payload', base: 1, offset, to: 1, length }) as const;
const cmp = (operation: number, value: string) => ({ name: 'cmp', from: 1, operation, value }) as const;
const mask = (bits: string) =>
  ({ name: 'bitwise', from: 1, to: 1, length: 4, operation: 0, mask: bits, xor: '00000000' }) as const;
const put = (to: number, value: string) => ({ name: 'immediate', to, value }) as const;

/** What `nft --debug=netlink` 1.0.6 prints for these, as values. Its immediates are in the byte order of the machine. */
const ROWS: readonly (readonly [text: string, Statement, readonly KnownExpression[]])[] = [
  [
    'fib daddr type local',
    { kind: 'match', key: 'fib daddr type', range: LOCAL },
    [{ name: 'fib', result: 3, flags: 2, to: 1 }, cmp(0, '02000000')],
  ],
  [
    'ip saddr != @s',
    { kind: 'match', key: 'ip saddr', isNot: true, set: 's' },
    [load(12), { name: 'lookup', set: 's', from: 1, flags: 1 }],
  ],
  ['ip daddr 10.0.0.0/8', { kind: 'match', key: 'ip daddr', range: TEN }, [load(16, 1), cmp(0, '0a')]],
  [
    'ip daddr 10.128.0.0/9',
    { kind: 'match', key: 'ip daddr', range: { first: 0x0a80_0000n, last: TEN.last } },
    [load(16), mask('ff800000'), cmp(0, '0a800000')],
  ],
  [
    'ct state invalid,untracked',
    { kind: 'match', key: 'ct state', isNot: true, mask: 0x41n, value: 0n },
    [{ name: 'ct', key: 0, to: 1 }, mask('41000000'), cmp(1, '00000000')],
  ],
  [
    'meta l4proto tcp',
    { kind: 'match', key: 'meta l4proto', range: TCP },
    [{ name: 'meta', key: 16, to: 1 }, cmp(0, '06')],
  ],
  [
    'numgen random mod 3 < 1',
    { kind: 'chance', size: 1, left: 3 },
    [
      { name: 'numgen', to: 1, modulus: 3, type: 1, offset: 0 },
      { name: 'byteorder', from: 1, to: 1, operation: 1, length: 4, size: 4 },
      cmp(2, '00000001'),
    ],
  ],
  [
    'masquerade to :1024-2000 fully-random',
    { kind: 'masquerade', ports: { first: 1024, last: 2000 }, flags: 0x10 },
    [put(1, '0400'), put(2, '07d0'), { name: 'masq', fromPort: 1, toPort: 2, flags: 0x12 }],
  ],
  [
    'snat to 1.2.3.4:1024',
    { kind: 'snat', address: ADDRESS, ports: { first: 1024, last: 1024 }, flags: 0 },
    [
      ...[put(1, '01020304'), put(2, '0400')],
      { name: 'nat', type: 0, family: 2, fromAddress: 1, fromPort: 2, flags: 0x2 },
    ],
  ],
  ['return', { kind: 'verdict', verdict: 'return' }, [{ name: 'immediate', to: 0, verdict: { code: -5 } }]],
  ['counter', { kind: 'counter' }, [{ name: 'counter', bytes: 0n, packets: 0n }]],
];

/** All but the range of all addresses, which no rule asks for. */
const prefixRange = (family: Family) =>
  crowdedPrefix(family)
    .filter(({ length }) => length > 0)
    .map(rangeOf);

function textOf(expressions: readonly Expression[], family: Family = 'IPv4'): string {
  return decode(family, expressions)
    .map((one) => statementText(family, one))
    .join(' ');
}

/** As the kernel sends them back. */
function sent(expressions: readonly KnownExpression[]): readonly Expression[] {
  return expressions.map((one) => {
    const bytes = writeExpression(one);
    return readExpression({ bytes, start: 4, end: bytes.readUInt16LE(0) });
  });
}

describe('statements of a rule', () => {
  for (const [text, statement, expressions] of ROWS)
    it(`are expressions as those of nft: ${text}`, () => {
      assert.deepEqual(encode('IPv4', [statement]), expressions);
      assert.deepEqual(decode('IPv4', sent(expressions)), [statement]);
      assert.equal(statementText('IPv4', statement), text);
    });

  const port = fc.integer({ min: 1, max: 65_535 });
  const ports = fc.tuple(port, port).map(([a, b]) => ({ first: Math.min(a, b), last: Math.max(a, b) }));
  for (const family of ['IPv4', 'IPv6'] as const)
    it(`are the same when they are read back (${family})`, () => {
      const [saddr, daddr] =
        family === 'IPv4' ? (['ip saddr', 'ip daddr'] as const) : (['ip6 saddr', 'ip6 daddr'] as const);
      const isNot = fc.constantFrom({}, { isNot: true } as const);
      const statement = fc.oneof(
        fc
          .record({ key: fc.constantFrom(saddr, daddr), range: prefixRange(family), not: isNot })
          .map(({ key, range, not }): Statement => ({ kind: 'match', key, range, ...not })),
        fc
          .record({ key: fc.constantFrom(saddr, daddr), not: isNot })
          .map(({ key, not }): Statement => ({ kind: 'match', key, set: 'a-set', ...not })),
        fc.record({ size: port, left: port }).map((one): Statement => ({ kind: 'chance', ...one })),
        fc
          .record({
            kind: fc.constantFrom('masquerade', 'snat'),
            address: prefixRange(family),
            ports: fc.option(ports, { nil: undefined }),
            flags: fc.constantFrom(0, 0x4, 0x10, 0x18),
          })
          .map(({ kind, address, ports: some, flags }): Statement => {
            const { first } = address;
            const rest = { ...(some !== undefined && { ports: some }), flags };
            return kind === 'snat'
              ? { kind: 'snat', address: { first, last: first }, ...rest }
              : { kind: 'masquerade', ...rest };
          }),
        fc.constantFrom<Statement>(
          ...ROWS.map(([, one]) => one).filter(
            (one) => one.kind !== 'snat' && !(one.kind === 'match' && one.key.startsWith('ip ')),
          ),
        ),
      );
      fc.assert(
        fc.property(fc.array(statement, { maxLength: 6 }), (statements) => {
          assert.deepEqual(decode(family, sent(encode(family, statements))), statements);
        }),
        { numRuns: 500 },
      );
    });

  const DADDR = load(16);
  const inMap = (to: number) => ({ name: 'lookup', set: 'm', from: 1, to }) as const;
  const CHANCE = { name: 'numgen', to: 1, modulus: 3, type: 1, offset: 0 } as const;
  const SNAT = { name: 'nat', type: 0, family: 2, fromAddress: 1, fromPort: 2 } as const;
  for (const [what, expressions, text] of [
    [
      'a range as two comparisons',
      [DADDR, cmp(5, '0a000001'), cmp(3, '0a000009')],
      'ip daddr 10.0.0.1-10.0.0.9',
    ],
    [
      'a range as one',
      [DADDR, { name: 'range', from: 1, operation: 0, first: '0a000001', last: '0a000009' }],
      'ip daddr 10.0.0.1-10.0.0.9',
    ],
    [
      'a prefix of whole bytes with a mask',
      [DADDR, mask('ff000000'), cmp(0, '0a000000')],
      'ip daddr 10.0.0.0/8',
    ],
    [
      'an address and a port that the kernel names twice',
      [put(1, '01020304'), put(2, '0400'), { ...SNAT, toAddress: 1, toPort: 2, flags: 0x3 }],
      'snat to 1.2.3.4:1024',
    ],
    [
      'a port or address of other bytes',
      [put(1, '00000400'), { name: 'masq', fromPort: 1, flags: 0x2 }],
      '[immediate to 1 value 00000400] [masq flags 2 fromPort 1]',
    ],
    [
      'a byte below a wide mask',
      [load(16, 1), mask('ffff0000'), cmp(0, '0a000000')],
      '[payload to 1 base 1 offset 16 length 1] [bitwise from 1 to 1 length 4 mask ffff0000 xor 00000000 operation 0] [cmp from 1 operation 0 value 0a000000]',
    ],
    [
      'another field of the header, such as ip ttl',
      [load(8, 1), cmp(0, '40')],
      '[payload to 1 base 1 offset 8 length 1] [cmp from 1 operation 0 value 40]',
    ],
    ['flags of NAT that the kernel adds', [{ name: 'masq', flags: 0x11 }], 'masquerade fully-random'],
    [
      'ports that the kernel does not use for want of a flag',
      [put(1, '0400'), { name: 'masq', fromPort: 1 }],
      '[immediate to 1 value 0400] [masq fromPort 1]',
    ],
    ['a mark that is set', [put(1, '07000000'), { name: 'meta', key: 3, from: 1 }], 'meta mark set 0x7'],
    [
      'an address in another prefix, and a flag that no nft has',
      [DADDR, inMap(1), { name: 'nat', type: 0, family: 2, fromAddress: 1, flags: 0xc0 }],
      'snat prefix to ip daddr map @m flags 0x80',
    ],
    [
      'a chance that compares in the byte order of the machine',
      [CHANCE, cmp(2, '01000000')],
      '[numgen to 1 modulus 3 type 1 offset 0] [cmp from 1 operation 2 value 01000000]',
    ],
    [
      'what is loaded and not used',
      [DADDR, { name: 'immediate', to: 0, verdict: { code: 1 } }],
      'accept [payload to 1 base 1 offset 16 length 4]',
    ],
    ['a lookup in a map', [DADDR, inMap(0)], 'ip daddr vmap @m'],
    ['destination NAT', [{ name: 'nat', type: 1, family: 2 }], '[nat type 1 family 2]'],
  ] as readonly (readonly [string, readonly KnownExpression[], string])[])
    it(`are read in one form or with all their bytes: ${what}`, () => {
      assert.equal(textOf(sent(expressions)), text);
    });

  it('keep an expression that is not known, and a known one with an attribute that is not, with its bytes', () => {
    const unknown = readExpression({
      bytes: Buffer.from('0a00010071756f7461000000', 'hex'),
      start: 0,
      end: 12,
    });
    assert.deepEqual(unknown, { name: 'unknown', type: 'quota', bytes: '' });
    const bytes = Buffer.from('08000100636d70000c0002000800090000000001', 'hex');
    const later = readExpression({ bytes, start: 0, end: 20 });
    assert.equal(later.name, 'unknown');
    assert.match(textOf([later]), /^\[unknown type cmp bytes 08000900/);
  });
});
