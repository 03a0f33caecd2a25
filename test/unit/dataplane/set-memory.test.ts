import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import { SetMemory } from '../../../lib/dataplane/nftables/set-memory.ts';
import { type NftablesTable, renderTable } from '../../../lib/dataplane/nftables/table.ts';
import type { Elements } from '../../../lib/netlink/elements.ts';
import { NetlinkError } from '../../../lib/netlink/error.ts';
import { compilePolicy } from '../../../lib/policy/policy.ts';
import { mergedOf } from '../config/support.ts';
import { fakeNetlink } from './requests.ts';

const OPTIONS = { chain: 'X', randomFully: false, toPorts: [] };

function tableOf(...cidrs: readonly string[]): NftablesTable {
  const config = mergedOf({ x: `nonMasqueradeCIDRs: ${JSON.stringify(cidrs)}` });
  return renderTable(compilePolicy(config, 'IPv4'), OPTIONS);
}

const TABLE = tableOf('10.0.0.0/8', '11.0.0.0/16');
const OTHER = tableOf('10.0.0.0/8');

/** The kernel. */
interface Kernel {
  readonly memory: SetMemory;
  generation: number;
  table: NftablesTable;
  /** What the next readings have instead of the whole set; empty for what it holds. */
  readonly readings: (Partial<Elements> & { readonly takes?: number })[];
  /** How often the set was read. */
  reads: number;
  /** What happens during the next change. */
  onChange: () => void;
  seen(): { readonly fingerprint: string; readonly generation: number; readonly counters: readonly [] };
  compare(): Promise<string>;
  /** The elements, or undefined. */
  content(from: 'kernel' | 'memory'): Promise<readonly string[] | undefined>;
  pass(ms: number): void;
}

function create({ mock }: TestContext): Kernel {
  let now = 0;
  // A mock of a mock would stay after the test.
  mock.restoreAll();
  mock.method(performance, 'now', () => now);
  const netlink = fakeNetlink({
    generation: async () => ({ id: kernel.generation, process: '' }),
    async elements() {
      kernel.reads += 1;
      const { takes = 1, ...reading } = kernel.readings.shift() ?? {};
      now += takes;
      const ranges = kernel.table.ranges.map(({ first, last }) => ({
        first,
        last,
        counter: undefined,
      }));
      return { ranges, catchAll: false, torn: false, ...reading };
    },
    async change() {
      kernel.onChange();
      kernel.generation += 1;
    },
  });
  const memory = new SetMemory(netlink);
  const kernel: Kernel = {
    memory,
    generation: 1,
    table: TABLE,
    readings: [],
    reads: 0,
    onChange: () => {},
    seen: () => ({ fingerprint: 'a', generation: kernel.generation, counters: [] }),
    compare: () => memory.compare('IPv4', kernel.seen()),
    content: async (from) => {
      const content = await memory.content('IPv4', kernel.seen(), from);
      return content && [...content.elements.keys()];
    },
    pass: (ms) => {
      now += ms;
    },
  };
  return kernel;
}

const change = { remove: [], add: [] };
const names = ({ elements }: NftablesTable) => [...elements.keys()];

describe('the memory of the set', () => {
  it('reads the set for a comparison only if nf_tables has changed', async (context) => {
    const kernel = create(context);
    assert.equal(await kernel.compare(), 'unproven');
    kernel.memory.hold('IPv4', TABLE);
    for (const [generation, reads] of [
      [1, 1],
      [1, 1],
      [2, 2],
      [3, 3],
      [3, 3],
    ] as const) {
      kernel.generation = generation;
      assert.equal(await kernel.compare(), 'same');
      assert.equal(kernel.reads, reads, `generation ${generation}`);
      kernel.pass(40);
    }
  });

  it('forgets the set if it differs, so that the next look reads it', async (context) => {
    const kernel = create(context);
    kernel.memory.hold('IPv4', TABLE, 1);
    kernel.generation = 2;
    kernel.table = OTHER;
    assert.deepEqual(await kernel.content('memory'), names(TABLE));
    assert.equal(await kernel.compare(), 'changed');
    assert.deepEqual(await kernel.content('memory'), names(OTHER));
    assert.equal(await kernel.compare(), 'unproven');
  });

  it('tells that the set holds all other addresses', async (context) => {
    const kernel = create(context);
    kernel.memory.hold('IPv4', TABLE);
    kernel.readings.push({ catchAll: true }, { catchAll: true });
    assert.equal(await kernel.compare(), 'changed');
    assert.deepEqual(await kernel.content('kernel'), [...names(TABLE), '*']);
  });

  it('reads it for a fortieth of the time at most, which does not concern reading counts', async (context) => {
    const kernel = create(context);
    kernel.memory.hold('IPv4', TABLE);
    kernel.readings.push({ takes: 100 });
    assert.equal(await kernel.compare(), 'same');
    kernel.table = OTHER;
    kernel.generation = 2;
    await kernel.memory.counts('IPv4', TABLE);
    kernel.pass(3_998);
    assert.deepEqual(await kernel.content('kernel'), names(TABLE));
    assert.equal(await kernel.compare(), 'unknown');
    assert.equal(kernel.reads, 2);
    kernel.pass(1);
    assert.deepEqual(await kernel.content('kernel'), names(OTHER));
    assert.equal(await kernel.compare(), 'unknown');
    kernel.pass(40);
    assert.equal(await kernel.compare(), 'changed');
  });

  it('need not read back its own change, unless others have made changes at the same time', async (context) => {
    for (const [when, prepare, reads] of [
      ['alone', () => {}, 0],
      ['before it', (kernel: Kernel) => (kernel.generation = 2), 1],
      [
        'during it',
        (kernel: Kernel) => {
          kernel.onChange = () => {
            kernel.generation += 1;
          };
        },
        1,
      ],
    ] as const) {
      const kernel = create(context);
      kernel.memory.hold('IPv4', TABLE, 1);
      prepare(kernel);
      await kernel.memory.change('IPv4', change, OTHER);
      kernel.table = OTHER;
      assert.deepEqual(await kernel.content('memory'), names(OTHER));
      assert.equal(await kernel.compare(), 'same');
      assert.equal(kernel.reads, reads, when);
      assert.equal(await kernel.compare(), 'same');
      assert.equal(kernel.reads, reads, when);
    }
  });

  it('does not take its changes of the other family, at the same time, for those of others', async (context) => {
    const kernel = create(context);
    for (const family of ['IPv4', 'IPv6'] as const) kernel.memory.hold(family, TABLE, 1);
    await Promise.all([
      kernel.memory.change('IPv4', change, OTHER),
      kernel.memory.change('IPv6', change, OTHER),
    ]);
    for (const family of ['IPv4', 'IPv6'] as const)
      assert.equal(await kernel.memory.compare(family, kernel.seen()), 'same');
    assert.equal(kernel.reads, 0);
  });

  for (const [failure, canChange] of [
    ['changed', true],
    ['failed', false],
    ['denied', false],
  ] as const) {
    it(`fails as a race if netlink fails with "${failure}", and ${canChange ? 'reads the set again' : 'leaves the next attempt to nft'}`, async (context) => {
      const kernel = create(context);
      kernel.memory.hold('IPv4', TABLE, 1);
      kernel.onChange = () => {
        throw new NetlinkError(failure, 'no');
      };
      await assert.rejects(
        kernel.memory.change('IPv4', change, OTHER),
        (error) => error instanceof DataplaneError && error.failure === 'raced',
      );
      assert.equal(kernel.memory.canChange('IPv4'), canChange);
      assert.equal(kernel.memory.canChange('IPv6'), true);
      assert.equal(kernel.memory.known('IPv4'), undefined);
      kernel.memory.forget('IPv4');
      assert.equal(kernel.memory.canChange('IPv4'), true);
    });
  }

  it('believes a reading during which nf_tables changed only if it is as expected', async (context) => {
    const torn = { torn: true };
    const tornWithout = (first: number, last: number) => ({
      torn: true,
      ranges: TABLE.ranges
        .filter((_, index) => index < first || index >= last)
        .map((range) => ({ ...range, counter: undefined })),
    });
    for (const [readings, found, reads, comparison] of [
      [[torn], names(TABLE), 1, 'same'],
      [[tornWithout(0, 1), {}], names(TABLE), 2, 'same'],
      [[tornWithout(0, 1), torn], names(TABLE), 2, 'same'],
      [[tornWithout(0, 1), tornWithout(0, 2)], undefined, 2, 'unknown'],
      [[tornWithout(0, 1), tornWithout(0, 1)], undefined, 2, 'unknown'],
    ] as const) {
      const kernel = create(context);
      kernel.memory.hold('IPv4', TABLE);
      kernel.readings.push(...readings);
      assert.deepEqual(await kernel.content('kernel'), found);
      assert.equal(kernel.reads, reads);
      const another = create(context);
      another.memory.hold('IPv4', TABLE);
      another.readings.push(...readings);
      assert.equal(await another.compare(), comparison);
    }
  });

  it('says nothing of a set that the agent itself changes meanwhile', async (context) => {
    for (const read of [TABLE, OTHER]) {
      const kernel = create(context);
      kernel.memory.hold('IPv4', TABLE);
      kernel.table = read;
      const comparing = kernel.compare();
      await kernel.memory.change('IPv4', change, OTHER);
      assert.equal(await comparing, 'unproven');
      assert.equal(kernel.memory.known('IPv4'), OTHER);
    }
  });

  it('has counts only of a set that holds what is known', async (context) => {
    const kernel = create(context);
    const counted = TABLE.ranges.map((range, index) => ({
      ...range,
      counter: index === 0 ? undefined : { packets: BigInt(index), bytes: 0n },
    }));
    kernel.readings.push({ ranges: counted }, { ranges: counted.slice(1) }, { catchAll: true });
    const counts = await kernel.memory.counts('IPv4', TABLE);
    assert.deepEqual(
      Array.from(counts ?? [], ([text, { packets }]) => [text, packets]),
      names(TABLE).map((text, index) => [text, BigInt(index)]),
    );
    assert.equal(await kernel.memory.counts('IPv4', TABLE), undefined);
    assert.equal(await kernel.memory.counts('IPv4', TABLE), undefined);
  });
});
