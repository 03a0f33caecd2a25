import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Netlink, Requests, Touched } from '../../../lib/dataplane/netlink.ts';
import { RulesetReader } from '../../../lib/dataplane/nftables/observe.ts';

const NOTHING = { rules: false, elements: false };
const RULES = { rules: true, elements: false };
const ELEMENTS = { rules: true, elements: true };

const SET = {
  name: 'not-masqueraded',
  handle: 1,
  flags: 4,
  keyType: 7,
  keyBytes: 4,
  expressions: [],
};

/**
 * A table with one set.
 *
 * @param touched what has changed, before and after each reading in turn; afterwards nothing has
 */
function readerOf(...touched: readonly Touched[]) {
  const rest = [...touched];
  const asked: string[] = [];
  const requests: Partial<Requests> = {
    table: async ({ table }) => {
      if (table !== 'ip-masq-agent') return undefined;
      asked.push('table');
      return { flags: 0, use: 1, handle: 1 };
    },
    sets: async () => [SET],
    elements: async () => {
      asked.push('elements');
      const ranges = [{ first: 1n, last: 2n, packets: undefined }];
      return { ranges, catchAll: false, hasOthers: false, generations: [1] };
    },
    chain: async () => undefined,
    rules: async () => [],
  };
  const netlink: Pick<Netlink, 'use' | 'takeTouched'> = {
    use: (use) => use(requests as Requests),
    takeTouched: () => rest.shift() ?? NOTHING,
  };
  const reader = new RulesetReader(netlink);
  /** Reads once more; what the kernel was asked for. */
  const read = async (isWhole = false) => {
    asked.length = 0;
    const { table } = await reader.read('IPv4', isWhole);
    assert.deepEqual(
      table?.sets[0]?.ranges?.map(({ last }) => last),
      [2n],
    );
    return asked.join(' ');
  };
  return { reader, read };
}

describe('a ruleset', () => {
  it('is read once as long as nobody touches it', async () => {
    const { read } = readerOf();
    assert.deepEqual([await read(), await read(), await read()], ['table elements', '', '']);
  });

  it('is read again without elements if only rules were touched', async () => {
    const { read } = readerOf(NOTHING, NOTHING, RULES);
    assert.deepEqual([await read(), await read(), await read()], ['table elements', 'table', '']);
  });

  it('is read whole if elements were touched, events were lost, or it is asked for', async () => {
    for (const touched of [ELEMENTS, 'unknown'] as const) {
      const { read } = readerOf(NOTHING, NOTHING, touched);
      assert.deepEqual([await read(), await read(), await read()], ['table elements', 'table elements', '']);
    }
    const { read } = readerOf();
    assert.deepEqual([await read(), await read(true)], ['table elements', 'table elements']);
  });

  it('is read again if it was touched meanwhile, with the elements only if they were', async () => {
    const rules = readerOf(NOTHING, NOTHING, RULES, RULES, NOTHING);
    assert.deepEqual([await rules.read(), await rules.read()], ['table elements', 'table table']);
    const elements = readerOf(NOTHING, NOTHING, RULES, ELEMENTS, NOTHING);
    assert.deepEqual(
      [await elements.read(), await elements.read()],
      ['table elements', 'table table elements'],
    );
  });

  it('is not remembered if it is touched again and again, or events were lost meanwhile', async () => {
    const storm = readerOf(NOTHING, ELEMENTS, ELEMENTS, ELEMENTS);
    assert.deepEqual(
      [await storm.read(), await storm.read()],
      ['table elements table elements table elements', 'table elements'],
    );
    const lost = readerOf(NOTHING, 'unknown');
    assert.deepEqual([await lost.read(), await lost.read()], ['table elements', 'table elements']);
  });

  it('is read whole after it was forgotten', async () => {
    const { reader, read } = readerOf();
    await read();
    reader.forget('IPv4');
    assert.equal(await read(), 'table elements');
  });
});
