import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { LookMemory, type Seen } from '../../../lib/dataplane/look-memory.ts';
import { fakeNetlink } from './requests.ts';

const HOUR = 3_600_000;

interface Fake {
  readonly memory: LookMemory<string, Seen>;
  /** What the kernel sends, one after the other; the last one stays. */
  send(...fingerprints: readonly (string | undefined)[]): void;
  /** Looks, and proves what was found if that is wanted; whether the tool was needed. */
  look(isProven?: boolean): Promise<{ readonly found: string; readonly byTool: boolean }>;
  /** Lets time pass. */
  pass(ms: number): void;
}

function create({ mock }: TestContext): Fake {
  let now = 0;
  mock.method(performance, 'now', () => now);
  let sent: (string | undefined)[] = ['a'];
  const netlink = fakeNetlink({});
  const memory = new LookMemory<string, Seen>(netlink, async () => {
    const fingerprint = sent.length > 1 ? sent.shift() : sent[0];
    return { fingerprint };
  });
  let looks = 0;
  return {
    memory,
    send: (...fingerprints) => {
      sent = [...fingerprints];
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

  it('proves nothing without the word of who looks', async (context) => {
    const { look, memory } = create(context);
    await look(false);
    assert.equal(await memory.compare('IPv4'), 'unproven');
    assert.equal((await look(false)).byTool, true);
  });

  it('needs no tool if the agent has no rules there', async (context) => {
    const { look, memory, send } = create(context);
    send(undefined);
    assert.deepEqual(await look(), { found: 'nothing', byTool: false });
    assert.equal(await memory.compare('IPv4'), 'unproven');
  });

  it('compares what the kernel sends with what was proven, in each family', async (context) => {
    const { look, memory, send } = create(context);
    await look();
    assert.deepEqual(await memory.compare('IPv4'), { fingerprint: 'a' });
    assert.equal(await memory.compare('IPv6'), 'unproven');
    for (const fingerprint of ['b', undefined]) {
      send(fingerprint);
      assert.equal(await memory.compare('IPv4'), 'changed');
      assert.equal(await memory.recall('IPv4'), undefined);
    }
    send('a');
    memory.forget('IPv6');
    assert.deepEqual(await memory.compare('IPv4'), { fingerprint: 'a' });
    const comparing = memory.compare('IPv4');
    memory.forget('IPv4');
    assert.equal(await comparing, 'unproven');
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
