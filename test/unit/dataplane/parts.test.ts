import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
  COUNTER,
  inSet,
  isLocal,
  isProtocol,
  NOT_TRACKED,
  RETURN,
  type RulePart,
  someOf,
  toPrefix,
  translate,
} from '../../../lib/dataplane/nftables/parts.ts';
import { rawText, recogniser } from '../../../lib/dataplane/nftables/recognise.ts';
import { renderTable } from '../../../lib/dataplane/nftables/table.ts';
import {
  type Expression,
  type KnownExpression,
  readExpression,
  writeExpression,
} from '../../../lib/netlink/expressions.ts';
import type { Span } from '../../../lib/netlink/messages.ts';
import { compilePolicy } from '../../../lib/policy/policy.ts';
import { crowdedAddress, FAMILIES } from '../cidr/arbitrary.ts';
import { addressFrom } from '../cidr/support.ts';
import { anyConfig } from '../policy/support.ts';
import { anyOptions } from './support.ts';

/** Expressions as `nft --debug=netlink` shows them, in its words and order. If none is named, the register is 1. */
const load = (offset: number, length = 4) => ({ name: 'payload', base: 1, offset, to: 1, length }) as const;
const cmp = (operation: number, value: string) => ({ name: 'cmp', from: 1, operation, value }) as const;
const mask = (bits: string) =>
  ({ name: 'bitwise', from: 1, to: 1, length: 4, operation: 0, mask: bits, xor: '00000000' }) as const;
const put = (to: number, value: string) => ({ name: 'immediate', to, value }) as const;
const to = (address: bigint, length: number, text: string) =>
  toPrefix({ family: 'IPv4', address, length }, text);

/**
 * What `nft --debug=netlink` 1.0.6 prints for these, as values, with what the kernel adds: the second register of one address or
 * port, and flags. Its immediates are in the byte order of the machine.
 */
const ROWS: readonly (readonly [text: string, RulePart | undefined, readonly KnownExpression[]])[] = [
  [
    'fib daddr type local',
    isLocal('fib daddr type'),
    [{ name: 'fib', result: 3, flags: 2, to: 1 }, cmp(0, '02000000')],
  ],
  [
    'fib saddr . oif type local',
    isLocal('fib saddr . oif type'),
    [{ name: 'fib', result: 3, flags: 17, to: 1 }, cmp(0, '02000000')],
  ],
  [
    'ip saddr != @s',
    inSet('IPv4', 'source', 's', true),
    [load(12), { name: 'lookup', set: 's', from: 1, flags: 1 }],
  ],
  ['ip daddr 10.0.0.0/8', to(0x0a00_0000n, 8, '10.0.0.0/8')[0], [load(16, 1), cmp(0, '0a')]],
  [
    'ip daddr 10.128.0.0/9',
    to(0x0a80_0000n, 9, '10.128.0.0/9')[0],
    [load(16), mask('ff800000'), cmp(0, '0a800000')],
  ],
  [
    'ct state invalid,untracked',
    NOT_TRACKED,
    [{ name: 'ct', key: 0, to: 1 }, mask('41000000'), cmp(1, '00000000')],
  ],
  ['meta l4proto tcp', isProtocol('tcp'), [{ name: 'meta', key: 16, to: 1 }, cmp(0, '06')]],
  [
    'numgen random mod 3 < 1',
    someOf({ size: 1, left: 3 }),
    [
      { name: 'numgen', to: 1, modulus: 3, type: 1, offset: 0 },
      { name: 'byteorder', from: 1, to: 1, operation: 1, length: 4, size: 4 },
      cmp(2, '00000001'),
    ],
  ],
  [
    'masquerade to :1024-2000 fully-random',
    translate('IPv4', { address: undefined, ports: { first: 1024, last: 2000 }, isRandom: true }),
    [put(1, '0400'), put(2, '07d0'), { name: 'masq', fromPort: 1, toPort: 2, flags: 0x12 }],
  ],
  [
    'snat to 1.2.3.4:1024',
    translate('IPv4', {
      address: addressFrom('1.2.3.4'),
      ports: { first: 1024, last: 1024 },
      isRandom: false,
    }),
    [
      ...[put(1, '01020304'), put(2, '0400')],
      { name: 'nat', type: 0, family: 2, fromAddress: 1, toAddress: 1, fromPort: 2, toPort: 2, flags: 0x3 },
    ],
  ],
  ['return', RETURN, [{ name: 'immediate', to: 0, verdict: { code: -5 } }]],
  ['counter', COUNTER, [{ name: 'counter', bytes: 0n, packets: 0n }]],
];

function spanOf(bytes: Buffer, start = 0, end = bytes.length): Span {
  return { bytes, numbers: new DataView(bytes.buffer, bytes.byteOffset, bytes.length), start, end };
}

/** As the kernel sends them back. */
function sent(expressions: readonly KnownExpression[]): readonly Expression[] {
  return expressions.map((one) => {
    const bytes = writeExpression(one);
    return readExpression(spanOf(bytes, 4, bytes.readUInt16LE(0)));
  });
}

describe('parts of a rule', () => {
  for (const [text, part, expressions] of ROWS)
    it(`are text and expressions as those of nft: ${text}`, () => {
      assert.equal(part?.text, text);
      assert.equal(rawText(part.expressions), rawText(expressions));
    });

  it('ask for nothing in place of all addresses', () => {
    assert.deepEqual(to(0n, 0, '0.0.0.0/0'), []);
  });

  it('are shown with all their bytes if they are not known, or have an attribute that is not', () => {
    const unknown = readExpression(spanOf(Buffer.from('0a00010071756f7461000000', 'hex')));
    assert.deepEqual(unknown, { name: 'unknown', type: 'quota', bytes: '' });
    const bytes = Buffer.from('08000100636d70000c0002000800090000000001', 'hex');
    const later = readExpression(spanOf(bytes));
    assert.match(rawText([later]), /^\[unknown bytes 08000900[0-9a-f]* type cmp\]/);
  });
});

describe('rules that are read', () => {
  for (const family of FAMILIES)
    it(`are known as the agent's, whatever its ${family} config, and no others`, () => {
      const own = fc.array(crowdedAddress(family).map((value) => ({ family, value })));
      fc.assert(
        fc.property(anyConfig(family), own, anyOptions, (config, addresses, some) => {
          const { chains } = renderTable(compilePolicy(config, family, addresses), some);
          const rules = chains.flatMap((chain) => chain.rules);
          const read = rules.map(({ expressions }) => sent(expressions));
          const recognise = recogniser(family, read, some);
          for (const [index, { own }] of rules.entries()) {
            const found = recognise(read[index] ?? []);
            assert.deepEqual([found?.text, found?.effect], [own?.text, own?.effect]);
            assert.equal(
              recognise([...(read[index] ?? []), { name: 'unknown', type: 'last', bytes: '' }]),
              undefined,
            );
          }
        }),
        { numRuns: 300 },
      );
    });
});
