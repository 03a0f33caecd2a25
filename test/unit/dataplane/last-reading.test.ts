import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { LastReading } from '../../../lib/dataplane/last-reading.ts';
import type { Netlink, Requests, Touched } from '../../../lib/dataplane/netlink.ts';

const NOTHING = { rules: false, elements: false };
const RULES = { rules: true, elements: false };
const ELEMENTS = { rules: true, elements: true };

const HOUR = 3_600_000;

/**
 * A reading that says which one it is, and which one was known.
 *
 * @param touched what has changed, before and after each reading in turn; afterwards nothing has
 */
function readerOf({ mock }: TestContext, ...touched: readonly Touched[]) {
  let [now, generation] = [0, 0];
  mock.restoreAll();
  mock.method(performance, 'now', () => now);
  const rest = [...touched];
  const requests: Partial<Requests> = {
    generation: async () => {
      generation += 1;
      return { id: generation, process: 'nft' };
    },
  };
  const netlink: Pick<Netlink, 'use' | 'takeTouched'> = {
    use: (use) => use(requests as Requests),
    takeTouched: () => rest.shift() ?? NOTHING,
  };
  const asked: string[] = [];
  const reader = new LastReading<number>(netlink, 'iptables', async (_, __, known) => {
    asked.push(known === undefined ? 'all' : `but ${known}`);
    return generation;
  });
  /** Reads once more; what was read, and how. */
  const read = async (isWhole = false) => {
    asked.length = 0;
    const { found, generation } = await reader.read('IPv4', isWhole);
    assert.equal(found, generation);
    return [...asked, found].join(' ');
  };
  const pass = (ms: number) => {
    now += ms;
  };
  return { reader, read, pass };
}

describe('the last reading', () => {
  it('stays as long as nobody touches the rules, for an hour', async (context) => {
    const { read, pass } = readerOf(context);
    assert.deepEqual([await read(), await read()], ['all 1', '1']);
    pass(HOUR - 1);
    assert.equal(await read(), '1');
    pass(1);
    assert.deepEqual([await read(), await read()], ['all 2', '2']);
  });

  it('is made again without what is slow if only rules were touched, and whole after the same hour', async (context) => {
    const { read, pass } = readerOf(context, NOTHING, NOTHING, RULES);
    await read();
    pass(HOUR - 1);
    assert.deepEqual([await read(), await read()], ['but 1 2', '2']);
    pass(1);
    assert.equal(await read(), 'all 3');
  });

  it('is made whole if elements were touched, events were lost, or it is asked for', async (context) => {
    for (const touched of [ELEMENTS, 'unknown'] as const) {
      const { read } = readerOf(context, NOTHING, NOTHING, touched);
      assert.deepEqual([await read(), await read(), await read()], ['all 1', 'all 2', '2']);
    }
    const { read } = readerOf(context);
    assert.deepEqual([await read(), await read(true)], ['all 1', 'all 2']);
  });

  it('is made again if rules were touched meanwhile', async (context) => {
    const rules = readerOf(context, NOTHING, NOTHING, RULES, RULES, NOTHING);
    assert.deepEqual([await rules.read(), await rules.read()], ['all 1', 'but 1 but 1 3']);
    const elements = readerOf(context, NOTHING, NOTHING, RULES, ELEMENTS, NOTHING);
    assert.deepEqual([await elements.read(), await elements.read()], ['all 1', 'but 1 all 3']);
  });

  it('is not remembered if they are touched again and again, or events were lost meanwhile', async (context) => {
    const storm = readerOf(context, NOTHING, ELEMENTS, ELEMENTS, ELEMENTS);
    assert.deepEqual([await storm.read(), await storm.read()], ['all all all 3', 'all 4']);
    const lost = readerOf(context, NOTHING, 'unknown');
    assert.deepEqual([await lost.read(), await lost.read()], ['all 1', 'all 2']);
  });

  it('is made whole after it was forgotten', async (context) => {
    const { reader, read } = readerOf(context);
    await read();
    assert.equal(reader.forget('IPv4')?.found, 1);
    assert.deepEqual([reader.forget('IPv4'), await read()], [undefined, 'all 2']);
  });
});
