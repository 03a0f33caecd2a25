import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { readFlow } from '../../../lib/netlink/conntrack.ts';
import { joinElements, readElements, writeElements } from '../../../lib/netlink/elements.ts';
import { NetlinkError } from '../../../lib/netlink/error.ts';
import {
  attribute,
  errnoIn,
  type Message,
  messagesIn,
  NFT_MSG,
  NLM_F,
  writeBatch,
  writeMessage,
} from '../../../lib/netlink/messages.ts';
import { readGeneration, readRule, readSnapshot } from '../../../lib/netlink/replies.ts';
import { CAPTURED } from './captured.ts';

const bytesOf = (hex: string) => Buffer.from(hex.replaceAll(/\s/g, ''), 'hex');

function messageOf(bytes: Buffer): Message {
  const [message, ...others] = messagesIn(bytes);
  assert.ok(message !== undefined && others.length === 0);
  return message;
}

const captured = (name: keyof typeof CAPTURED) => messageOf(bytesOf(CAPTURED[name]));

/** Every way in which a message is read. */
const READERS: Readonly<Record<string, (message: Message) => unknown>> = {
  generation: readGeneration,
  table: (message) => readSnapshot(message, 'table'),
  chain: (message) => readSnapshot(message, 'chain'),
  set: (message) => readSnapshot(message, 'set'),
  rule: (message) => readRule(message),
  elements: (message) => joinElements([readElements(message, 4)], 4),
  errno: errnoIn,
  flow: readFlow,
};

/** What a reader makes of bytes; it may fail in no other way than with NetlinkError. */
function outcomeOfReading(read: (message: Message) => unknown, bytes: Buffer): unknown {
  try {
    return messagesIn(bytes).map(read);
  } catch (error) {
    if (!(error instanceof NetlinkError && error.failure === 'failed')) throw error;
    return error.message;
  }
}

describe('messages of the kernel', () => {
  it('say which program changed nf_tables last', () => {
    assert.deepEqual(readGeneration(captured('generation')), { id: 3, process: 'nft' });
  });

  it('say what a rule counts and where it leads', () => {
    const said = (name: keyof typeof CAPTURED) => {
      const { packets, target } = readRule(captured(name)) ?? {};
      return [packets, target];
    };
    assert.deepEqual(said('rule'), [7n, undefined]);
    assert.deepEqual(said('jump'), [0n, 'X']);
    assert.deepEqual(said('xtables'), [1n, undefined]);
  });

  it('are read to their end only if they lead to the chain that is asked for', () => {
    const read = (name: keyof typeof CAPTURED) => readRule(captured(name), 'X')?.target;
    assert.deepEqual([read('jump'), read('rule')], ['X', undefined]);
    assert.equal(readRule(captured('jump'), 'Y'), undefined);
  });

  it('give one fingerprint as long as only counts, handles and content change', () => {
    for (const [name, at, from, to, differs] of [
      ['rule', 'the packets', '0000000000000007', '0000000000000009', false],
      ['rule', 'the handle', '0c0003000000000000000004', '0c0003000000000000000009', false],
      ['rule', 'the rule before', '0c0006000000000000000003', '0c0006000000000000000001', false],
      ['chain', 'the number of rules', '0800060000000002', '0800060000000009', false],
      ['set', 'the number of elements', '0800140000000005', '0800140000000009', false],
      ['rule', 'the comment', '72657374', '72657375', true],
      ['rule', 'the flags of masquerade', '00000010', '00000000', true],
      ['xtables', 'the probability', '00000040', '00000041', true],
      ['jump', 'the target', '06000200580000', '06000200590000', true],
      ['chain', 'the priority', '0800020000000064', '0800020000000065', true],
      ['set', 'the flags', '0800030000000004', '0800030000000014', true],
      ['table', 'the number of chains and sets', '0800030000000002', '0800030000000003', true],
    ] as const) {
      assert.ok(CAPTURED[name].includes(from), at);
      const read = (READERS[name] ?? readRule) as (message: Message) => { readonly fingerprint: string };
      const [before, after] = [CAPTURED[name], CAPTURED[name].replace(from, to)].map(
        (hex) => read(messageOf(bytesOf(hex))).fingerprint,
      );
      assert.equal(before !== after, differs, `${name}: ${at}`);
    }
  });

  it('have the elements of a set, ascending, the last one without an end', () => {
    const element = (first: bigint, last: bigint) => ({ first, last, packets: 0n });
    assert.deepEqual(READERS['elements']?.(captured('elements')), {
      catchAll: false,
      torn: false,
      ranges: [
        element(0n, 0x00ff_ffffn),
        element(0x0a00_0000n, 0x0aff_ffffn),
        element(0x0b00_0000n, 0x0bff_ffffn),
        element(0xac10_0000n, 0xac1f_ffffn),
        element(0xc0a8_0001n, 0xc0a8_0001n),
        element(0xf000_0000n, 0xffff_ffffn),
      ],
    });
  });

  it('say if elements come twice because the set changed meanwhile', () => {
    const readTwice = (second: string) => {
      const messages = [captured('elements'), messageOf(bytesOf(second))];
      const parts = messages.map((message) => readElements(message, 4));
      return joinElements(parts, 4);
    };
    assert.throws(() => readTwice(CAPTURED.elements), { failure: 'failed' });
    const later = CAPTURED.elements.replace('0200000306', '0200000406');
    assert.throws(() => readTwice(later), { failure: 'interrupted' });
    const none = '28000000 0c0a0200 00000000 00000000 02000004 06000100 74000000 06000200 73000000 04000300';
    assert.deepEqual([readTwice(none).torn, readTwice(none).ranges.length], [true, 6]);
  });

  it('have both directions of a flow', () => {
    const [pod, outside, node] = [0x0af4_0102n, 0xcb00_7109n, 0xc000_0201n];
    assert.deepEqual(readFlow(captured('flow')), {
      family: 'IPv4',
      protocol: 6,
      original: { source: pod, destination: outside, sourcePort: 29_000, destinationPort: 4000 },
      reply: { source: outside, destination: node, sourcePort: 4000, destinationPort: 29_000 },
      id: 0x66b3_4ddd,
      zone: 0,
      isExpected: false,
      tcpState: 7,
    });
  });

  it('say how a request ended', () => {
    assert.deepEqual([errnoIn(captured('refusal')), errnoIn(captured('done'))], [2, 0]);
  });

  it('are not understood if elements are of another kind', () => {
    const element = (hex: string) => bytesOf(`2c000000 0c0a 0200 00000000 00000000 02000000 ${hex}`);
    const wrong = {
      'a key of 6 bytes': '18000300 14000100 0c000100 0a000100 0a000000 00010000',
      'an unknown flag': '18000300 14000100 08000300 00000004 08000100 04000100',
      'the data of a map': '18000300 14000100 0c000100 08000100 0a000000 04000200',
      'a time limit': '18000300 14000100 0c000100 08000100 0a000000 04000400',
    };
    for (const [what, hex] of Object.entries(wrong)) {
      const read = () => READERS['elements']?.(messageOf(element(hex)));
      assert.throws(read, { name: 'Error', failure: 'failed' }, what);
    }
  });
});

describe('bytes that no kernel sends', () => {
  const readers = fc.constantFrom(...Object.values(READERS));
  const names = fc.constantFrom(...(Object.keys(CAPTURED) as (keyof typeof CAPTURED)[]));

  it('are read, or refused as not understood', () => {
    const bytes = fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes));
    fc.assert(fc.property(readers, bytes, (read, bytes) => void outcomeOfReading(read, bytes)));
  });

  it('are refused if a message is cut off', () => {
    fc.assert(
      fc.property(names, fc.nat(), (name, cut) => {
        const bytes = bytesOf(CAPTURED[name]);
        const read = outcomeOfReading(readGeneration, bytes.subarray(0, 1 + (cut % (bytes.length - 1))));
        assert.equal(typeof read, 'string');
      }),
    );
  });

  it('never break a reader if some bytes of a message differ, or it ends early with a right length', () => {
    const changes = fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { maxLength: 4 });
    fc.assert(
      fc.property(readers, names, changes, fc.nat(), (read, name, changes, cut) => {
        const whole = bytesOf(CAPTURED[name]);
        const bytes = whole.subarray(0, 16 + (cut % (whole.length - 15)));
        bytes.writeUInt32LE(bytes.length);
        for (const [at, value] of changes)
          if (bytes.length > 16) bytes[16 + (at % (bytes.length - 16))] = value;
        outcomeOfReading(read, bytes);
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('messages to the kernel', () => {
  it('ask for what a name says', () => {
    const attributes = [attribute(1, 'nat'), attribute(2, 'X')];
    const bytes = writeMessage({ type: 0x0a07, flags: NLM_F.dump, protocol: 2, attributes }, 7);
    // nlmsghdr, nfgenmsg, NFTA_RULE_TABLE, NFTA_RULE_CHAIN
    const golden = '24000000 070a 0103 07000000 00000000 02000000 08000100 6e617400 06000200 58000000';
    assert.deepEqual(bytes, bytesOf(golden));
  });

  it('are a batch that nft would send, with an answer to its last message', () => {
    const attributes = [writeElements([RANGE, TOP], 4)];
    const request = { type: NFT_MSG.newSetElement, flags: NLM_F.createExclusive, protocol: 2, attributes };
    assert.deepEqual(
      writeBatch([{ ...request, flags: NLM_F.none, type: NFT_MSG.deleteSetElement }, request], 1),
      bytesOf(`
        14000000 1000 0100 01000000 00000000 00 00 000a
        50000000 0e0a 0100 01000000 00000000 02 00 0000 ${ELEMENTS}
        50000000 0c0a 0506 01000000 00000000 02 00 0000 ${ELEMENTS}
        14000000 1100 0100 01000000 00000000 00 00 000a`),
    );
  });

  it('hold only ranges of the family', () => {
    for (const [first, last] of [
      [-1n, 1n],
      [2n, 1n],
      [0n, 2n ** 32n],
    ] as const)
      assert.throws(() => writeElements([{ first, last }], 4), RangeError);
  });

  it('give back the ranges that were written', () => {
    for (const bytes of [4, 16] as const) {
      const key = fc.bigInt({ min: 0n, max: (1n << BigInt(8 * bytes)) - 1n });
      const ranges = fc
        .uniqueArray(fc.oneof(key, fc.bigInt({ min: 0n, max: 20n })), { maxLength: 40 })
        .map((keys) => {
          const sorted = keys.toSorted((a, b) => (a < b ? -1 : 1));
          return sorted.flatMap((last, index) =>
            index % 2 === 0 ? [] : [{ first: sorted[index - 1] ?? 0n, last }],
          );
        });
      fc.assert(
        fc.property(ranges, fc.boolean(), (ranges, descending) => {
          const attributes = [writeElements(descending ? ranges.toReversed() : ranges, bytes)];
          const message = messageOf(writeMessage({ type: 0, flags: 0, protocol: 0, attributes }, 0));
          const read = joinElements([readElements(message, bytes)], bytes).ranges;
          const ends = read.map(({ first, last }) => ({ first, last }));
          assert.deepEqual(ends, ranges);
        }),
      );
    }
  });
});

const RANGE = { first: 0x0c00_0000n, last: 0x0cff_ffffn };
const TOP = { first: 0xf000_0000n, last: 0xffff_ffffn };

/** NFTA_SET_ELEM_LIST_ELEMENTS: 12.0.0.0, 13.0.0.0 as an end, 240.0.0.0 */
const ELEMENTS = `3c000380
  10000180 0c000180 08000100 0c000000
  18000180 08000300 00000001 0c000180 08000100 0d000000
  10000180 0c000180 08000100 f0000000`;
