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
  NFPROTO,
  NFT_MSG,
  NFTA,
  NLM_F,
  offsetIn,
  writeBatch,
  writeMessage,
} from '../../../lib/netlink/messages.ts';
import {
  readChain,
  readGeneration,
  readNatChain,
  readRule,
  readSet,
  readTable,
} from '../../../lib/netlink/replies.ts';
import { createChangeReader } from '../../../lib/netlink/watch.ts';
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
  table: readTable,
  chain: readChain,
  natChain: readNatChain,
  set: readSet,
  rule: (message: Message) => readRule(message),
  elements: (message) => joinElements(readElements(message, 4), 4),
  errno: errnoIn,
  offset: offsetIn,
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
      const { packets, expressions } = readRule(captured(name));
      return [
        packets,
        expressions.flatMap((one) => (one.name === 'immediate' ? (one.verdict?.chain ?? []) : [])),
      ];
    };
    assert.deepEqual(said('rule'), [7n, []]);
    assert.deepEqual(said('jump'), [0n, ['X']]);
    assert.deepEqual(said('xtables'), [1n, []]);
  });

  it('say what tables, chains, sets and rules are, with their comments', () => {
    assert.deepEqual(readTable(captured('table')), EXPECTED.table);
    assert.deepEqual(readChain(captured('chain')), EXPECTED.chain);
    assert.deepEqual(readSet(captured('set')), EXPECTED.set);
    assert.deepEqual(readRule(captured('rule')), EXPECTED.rule);
  });

  it('have the elements of a set, ascending, the last one without an end', () => {
    const element = (first: bigint, last: bigint) => ({ first, last, packets: 0n });
    assert.deepEqual(READERS['elements']?.(captured('elements')), {
      catchAll: false,
      hasOthers: false,
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
      return joinElements(
        messages.flatMap((message) => readElements(message, 4)),
        4,
      );
    };
    assert.throws(() => readTwice(CAPTURED.elements), { failure: 'interrupted' });
    const none = '28000000 0c0a0200 00000000 00000000 02000004 06000100 74000000 06000200 73000000 04000300';
    assert.equal(readTwice(none).ranges.length, 6);
  });

  it('have more than ranges if an end ends nothing, but for that at the lowest address', () => {
    const others = (...edges: readonly (readonly ['first' | 'end', bigint])[]) => {
      const all = edges.map(([kind, key]) => ({
        key,
        flags: kind === 'end' ? 1 : 0,
        packets: undefined,
        hasOthers: false,
      }));
      const { ranges, hasOthers } = joinElements(all, 4);
      return [ranges.length, hasOthers];
    };
    assert.deepEqual(others(['end', 0n], ['first', 8n], ['end', 16n], ['first', 16n], ['end', 24n]), [
      2,
      false,
    ]);
    assert.deepEqual(others(['end', 4n], ['first', 8n], ['end', 16n]), [1, true]);
    assert.deepEqual(others(['first', 8n], ['end', 16n], ['end', 20n]), [1, true]);
    assert.deepEqual(others(['first', 8n], ['end', 16n], ['end', 16n]), [1, true]);
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
    const expected = CAPTURED.flow.replace('0000019e', '0000019f');
    assert.equal(readFlow(messageOf(bytesOf(expected))).isExpected, true);
  });

  it('say how a request ended', () => {
    assert.deepEqual([errnoIn(captured('refusal')), errnoIn(captured('done'))], [2, 0]);
  });

  it('say if elements are more than ranges, and are not understood if their keys are no addresses', () => {
    const read = (list: string) => {
      const edges = readElements(messageOf(bytesOf(`${lengthOf(list)} ${list}`)), 4);
      return joinElements(edges, 4).hasOthers;
    };
    const lengthOf = (list: string) => {
      const length = 20 + bytesOf(list).length;
      return `${length.toString(16)}000000 0c0a 0200 00000000 00000000 02000000`;
    };
    const key = '0c000100 08000100 0a000000';
    assert.equal(read(`14000300 10000100 ${key}`), false);
    for (const [what, list] of [
      ['an unknown flag', `1c000300 18000100 08000300 00000004 ${key}`],
      ['the data of a map', `20000300 1c000100 ${key} 0c000200 08000100 00000000`],
      ['a time limit', `1c000300 18000100 ${key} 08000400 00000000`],
    ] as const)
      assert.equal(read(list), true, what);
    assert.throws(() => read('18000300 14000100 10000100 0a000100 0a000000 00010000'), { failure: 'failed' });
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

describe('changes of nf_tables', () => {
  const tables = [
    { family: 'IPv4', table: 't' },
    { family: 'IPv4', table: 'nat', chains: ['X'] },
  ] as const;
  const generation = bytesOf(CAPTURED.generation);
  const tell = (...names: readonly (keyof typeof CAPTURED)[]) =>
    createChangeReader(tables).read(
      Buffer.concat([...names.map((name) => bytesOf(CAPTURED[name])), generation]),
    );

  it('are told with the writer and what they touch, if they touch a watched table or chain', () => {
    const [change, ...more] = tell('jump', 'rule', 'rule', 'elements');
    assert.equal(more.length, 0);
    assert.deepEqual([change?.id, change?.process], [3, 'nft']);
    assert.deepEqual(change?.touched, [tables[0]]);
    assert.deepEqual(
      tell('set', 'xtables').map(({ touched }) => touched),
      [[...tables]],
    );
  });

  it('are told of chains if their table goes', () => {
    const attributes = [attribute(NFTA.table.name, 'nat')];
    const request = {
      type: NFT_MSG.deleteTable,
      flags: NLM_F.none,
      protocol: NFPROTO.IPv4.protocol,
      attributes,
    };
    const [change] = createChangeReader(tables).read(Buffer.concat([writeMessage(request, 1), generation]));
    assert.deepEqual(change?.touched, [tables[1]]);
  });

  it('are not told if they are of other chains or tables', () => {
    assert.deepEqual(tell('jump'), []);
    const reader = createChangeReader([
      { family: 'IPv6', table: 't' },
      { family: 'IPv4', table: 'tt' },
      { family: 'IPv4', table: 'u' },
    ]);
    assert.deepEqual(reader.read(Buffer.concat([bytesOf(CAPTURED.rule), generation])), []);
  });

  it('are told whole if the generation comes in a later datagram', () => {
    const reader = createChangeReader(tables);
    assert.deepEqual([reader.read(bytesOf(CAPTURED.rule)), reader.isWithin], [[], true]);
    assert.equal(reader.read(generation).length, 1);
    assert.deepEqual([reader.read(generation), reader.isWithin], [[], false]);
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
        5c000000 0e0a 0100 01000000 00000000 02 00 0000 ${ELEMENTS}
        5c000000 0c0a 0506 02000000 00000000 02 00 0000 ${ELEMENTS}
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
          // An address alone, then two as a range.
          return sorted.flatMap((last, index) =>
            index % 3 === 1 ? [] : [{ first: (index % 3 === 2 ? sorted[index - 1] : last) ?? 0n, last }],
          );
        });
      fc.assert(
        fc.property(ranges, fc.boolean(), (ranges, descending) => {
          const attributes = [writeElements(descending ? ranges.toReversed() : ranges, bytes)];
          const message = messageOf(writeMessage({ type: 0, flags: 0, protocol: 0, attributes }, 0));
          const read = joinElements(readElements(message, bytes), bytes).ranges;
          const ends = read.map(({ first, last }) => ({ first, last }));
          assert.deepEqual(ends, ranges);
        }),
      );
    }
  });
});

/** What the captured messages say. */
const EXPECTED = {
  table: { flags: 0, use: 2 },
  chain: {
    protocol: 2,
    table: 't',
    name: 'c',
    use: 2,
    hook: { type: 'nat', policy: 1, number: 4, priority: 100 },
  },
  set: {
    name: 's',
    flags: 4,
    keyType: 7,
    keyBytes: 4,
    expressions: [{ name: 'counter', bytes: 0n, packets: 0n }],
    comment: 'c',
  },
  rule: {
    chain: 'c',
    expressions: [
      { name: 'counter', bytes: 420n, packets: 7n },
      { name: 'masq', flags: 16 },
    ],
    packets: 7n,
    comment: 'rest',
  },
};

const RANGE = { first: 0x0c00_0000n, last: 0x0cff_ffffn };
const TOP = { first: 0xf000_0000n, last: 0xffff_ffffn };

/** NFTA_SET_ELEM_LIST_ELEMENTS: 12.0.0.0, 13.0.0.0 as an end, 240.0.0.0 with user data that says that its end is open */
const ELEMENTS = `48000380
  10000180 0c000180 08000100 0c000000
  18000180 0c000180 08000100 0d000000 08000300 00000001
  1c000180 0c000180 08000100 f0000000 0a000600 01040100 00000000`;
