import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import type { Family } from '../../../lib/cidr/address.ts';
import { LookMemory, type Seen } from '../../../lib/dataplane/look-memory.ts';
import { fakeNetlink } from './requests.ts';

const HOUR = 3_600_000;

interface Fake {
  readonly memory: LookMemory<string, Seen>;
  /** What the kernel sends, one after the other, each in a generation of its own; the last one stays. */
  send(...fingerprints: readonly (string | undefined)[]): void;
  /** Looks, and proves what was found if that is wanted; whether the tool was needed. */
  look(isProven?: boolean): Promise<{ readonly found: string; readonly byTool: boolean }>;
  /** Compares: the generation and the fingerprint, or how they differ. */
  compare(family?: Family): Promise<string>;
  /** How often the rules were read over netlink. */
  reads(): number;
  /** Lets time pass. */
  pass(ms: number): void;
}

function create({ mock }: TestContext): Fake {
  let now = 0;
  mock.method(performance, 'now', () => now);
  let sent: (string | undefined)[] = ['a'];
  let [generation, reads] = [1, 0];
  const netlink = fakeNetlink({ generation: async () => ({ id: generation, process: 'nft' }) });
  const memory = new LookMemory<string, Seen>(netlink, async () => {
    reads += 1;
    const seen = { generation, fingerprint: sent[0] };
    if (sent.length > 1) {
      sent.shift();
      generation += 1;
    }
    return seen;
  });
  let looks = 0;
  return {
    memory,
    send: (...fingerprints) => {
      sent = [...fingerprints];
      generation += 1;
    },
    async look(isProven = true) {
      const before = looks;
      const tool = async () => {
        looks += 1;
        return `look ${looks}`;
      };
      const { found, prove } = await memory.look('IPv4', await memory.see('IPv4'), tool, 'nothing');
      if (isProven) prove();
      return { found, byTool: looks > before };
    },
    async compare(family = 'IPv4') {
      const now = await memory.compare(family);
      return typeof now === 'string' ? now : `${now.generation} ${now.fingerprint}`;
    },
    reads: () => reads,
    pass: (ms) => {
      now += ms;
    },
  };
}

describe('the memory of looks', () => {
  it('spares the tool as long as the kernel sends the same, for an hour', async (context) => {
    const { look, memory, send, pass } = create(context);
    assert.deepEqual(await look(), { found: 'look 1', byTool: true });
    pass(HOUR - 1);
    assert.deepEqual(await look(), { found: 'look 1', byTool: false });
    assert.equal((await memory.recall('IPv4'))?.found, 'look 1');
    send('b');
    assert.deepEqual(await look(), { found: 'look 2', byTool: true });
    send('a');
    assert.deepEqual(await look(), { found: 'look 3', byTool: true });
    pass(HOUR);
    assert.deepEqual(await look(), { found: 'look 4', byTool: true });
  });

  it('proves nothing if the kernel has sent something else before the tool has looked', async (context) => {
    const { look, memory, send } = create(context);
    for (const [before, after] of [
      ['a', 'b'],
      ['a', undefined],
    ]) {
      send(before, after, after);
      await look();
      send('a');
      assert.equal(await memory.compare('IPv4'), 'unproven');
      send('b');
      assert.equal(await memory.compare('IPv4'), 'unproven');
    }
  });

  it('asks the tool again if others made changes while it looked, between which it may have read something else', async (context) => {
    const { look, compare, send } = create(context);
    send('a', 'a', 'a');
    assert.deepEqual(await look(), { found: 'look 1', byTool: true });
    assert.equal(await compare(), '4 a');
    assert.deepEqual(await look(), { found: 'look 2', byTool: true });
    assert.deepEqual(await look(), { found: 'look 2', byTool: false });
  });

  it('proves nothing without the word of who looks, and then reads nothing to compare', async (context) => {
    const { look, memory, reads } = create(context);
    await look(false);
    const before = reads();
    assert.equal(await memory.compare('IPv4'), 'unproven');
    assert.equal(reads(), before);
    assert.equal((await look(false)).byTool, true);
  });

  it('needs no tool if the agent has no rules there', async (context) => {
    const { look, memory, send } = create(context);
    send(undefined);
    assert.deepEqual(await look(), { found: 'nothing', byTool: false });
    assert.equal(await memory.compare('IPv4'), 'unproven');
  });

  it('compares what the kernel sends with what was proven, in each family', async (context) => {
    const { look, memory, compare, send } = create(context);
    await look();
    assert.equal(await compare(), '1 a');
    assert.equal(await compare('IPv6'), 'unproven');
    for (const fingerprint of ['b', undefined]) {
      send(fingerprint);
      assert.equal(await compare(), 'changed');
      assert.equal(await memory.recall('IPv4'), undefined);
    }
    send('a');
    memory.forget('IPv6');
    assert.equal(await compare(), '4 a');
    for (const prepare of [() => {}, () => send('a')]) {
      await look();
      prepare();
      const comparing = compare();
      memory.forget('IPv4');
      assert.equal(await comparing, 'unproven');
    }
  });

  it('asks only for the generation if nothing has changed since the proof', async (context) => {
    const { look, memory, compare, send, reads } = create(context);
    await look();
    const before = reads();
    await look();
    assert.equal(await compare(), '1 a');
    assert.equal(reads(), before);
    // Another program has changed something else.
    send('a');
    for (let times = 0; times < 2; times += 1) {
      assert.equal(await compare(), '2 a');
      assert.equal(reads(), before + 1);
    }
    // The rules that are read have counts.
    assert.equal((await memory.recall('IPv4'))?.seen.generation, 2);
    assert.equal(reads(), before + 2);
  });

  it('knows nothing without netlink, and asks the tool each time', async () => {
    const memory = new LookMemory<string, Seen>(undefined, async () => assert.fail());
    let looks = 0;
    const tool = async () => `look ${++looks}`;
    for (const expected of ['look 1', 'look 2']) {
      const { found, prove } = await memory.look('IPv4', await memory.see('IPv4'), tool, 'nothing');
      prove();
      assert.equal(found, expected);
    }
    assert.equal(await memory.compare('IPv4'), 'unknown');
  });
});
