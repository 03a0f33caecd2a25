import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import type { Family } from '../../../lib/cidr/address.ts';
import { KernelMemory, type Look, type Seen } from '../../../lib/dataplane/memory.ts';
import { fakeNetlink } from './support.ts';

const HOUR = 3_600_000;
const BOTH = ['IPv4', 'IPv6'] as const;

interface Fake {
  readonly memory: KernelMemory<string, Seen>;
  /** What the kernel sends, one after the other, each in a generation of its own; the last one stays. */
  send(...fingerprints: readonly (string | undefined)[]): void;
  /** Looks through a tool if that is needed, which finds this. */
  look(inKernel: string, family?: Family): Promise<Look<string> & { readonly byTool: boolean }>;
  /** Looks, and trusts what was found; what it was, and whether the tool was needed. */
  settle(inKernel: string, family?: Family): Promise<readonly [found: string, byTool: boolean]>;
  /** How often the rules were read over netlink. */
  reads(): number;
  /** Lets time pass. */
  pass(ms: number): void;
}

function create({ mock }: TestContext, withNetlink = true): Fake {
  let now = 0;
  mock.restoreAll();
  mock.method(performance, 'now', () => now);
  let sent: (string | undefined)[] = ['a'];
  let [generation, reads] = [1, 0];
  const netlink = fakeNetlink({ generation: async () => ({ id: generation, process: 'nft' }) });
  const see = async () => {
    reads += 1;
    const seen = { generation, fingerprint: sent[0] };
    if (sent.length > 1) {
      sent.shift();
      generation += 1;
    }
    return seen;
  };
  const memory = new KernelMemory<string, Seen>(withNetlink ? netlink : undefined, see, Object.is);
  const look = async (inKernel: string, family: Family = 'IPv4') => {
    let byTool = false;
    const found = await memory.look(family, async (_, known) => {
      byTool = known === undefined;
      return known ?? inKernel;
    });
    return { ...found, byTool };
  };
  return {
    memory,
    send: (...fingerprints) => {
      sent = [...fingerprints];
      generation += 1;
    },
    look,
    async settle(inKernel, family = 'IPv4') {
      const one = await look(inKernel, family);
      memory.trust(family, one);
      return [one.found, one.byTool];
    },
    reads: () => reads,
    pass: (ms) => {
      now += ms;
    },
  };
}

describe('the memory of the kernel', () => {
  it('spares the tool as long as the kernel sends the same, for an hour', async (context) => {
    const { settle, send, pass } = create(context);
    assert.deepEqual(await settle('x'), ['x', true]);
    pass(HOUR - 1);
    assert.deepEqual(await settle('x'), ['x', false]);
    send('b');
    assert.deepEqual(await settle('y'), ['y', true]);
    send('a');
    assert.deepEqual(await settle('x'), ['x', true]);
    pass(HOUR);
    assert.deepEqual(await settle('x'), ['x', true]);
  });

  it('asks only for the generation if nothing has changed since the proof', async (context) => {
    const { settle, memory, send, reads } = create(context);
    await settle('x');
    const before = reads();
    await settle('x');
    assert.equal(reads(), before);
    // Another program has changed something else.
    send('a');
    await settle('x');
    await settle('x');
    assert.equal(reads(), before + 1);
    // The rules that are read have counts.
    assert.equal((await memory.recall('IPv4'))?.seen.generation, 2);
    assert.equal(reads(), before + 2);
  });

  it('proves nothing if the kernel has sent something else before the tool has looked', async (context) => {
    for (const after of ['b', undefined]) {
      const { look, send } = create(context);
      send('a', after, after);
      assert.equal((await look('x')).proof, undefined);
    }
  });

  it('asks the tool again if others made changes while it looked, between which it may have read something else', async (context) => {
    const { settle, send } = create(context);
    send('a', 'a', 'a');
    assert.deepEqual(await settle('x'), ['x', true]);
    assert.deepEqual(await settle('x'), ['x', true]);
    assert.deepEqual(await settle('x'), ['x', false]);
  });

  it('knows up to which generation the rules of all families are the policies', async (context) => {
    const { settle, send, memory } = create(context);
    await settle('x');
    assert.equal(memory.knownUntil(BOTH), undefined);
    send('a');
    await settle('x', 'IPv6');
    assert.deepEqual([memory.knownUntil(BOTH), memory.knownUntil(['IPv6'])], [1, 2]);
    await settle('x');
    assert.equal(memory.knownUntil(BOTH), 2);
  });

  it('counts what was written again, and no counts are known that were read meanwhile', async (context) => {
    const { memory } = create(context);
    const incarnation = async (family: Family) => (await memory.count(family, async () => [])).incarnation;
    const write = (remakes: boolean, change = async () => {}) => memory.write('IPv4', remakes, change);
    for (const remakes of [false, true, false]) await write(remakes);
    const fail = () => Promise.reject(new Error('no'));
    await assert.rejects(write(true, fail), /no/);
    assert.deepEqual([await incarnation('IPv4'), await incarnation('IPv6')], [1, 0]);
    const raced = { failure: 'raced' };
    const { promise, resolve } = Promise.withResolvers<void>();
    const writing = write(true, () => promise);
    await assert.rejects(incarnation('IPv4'), raced);
    resolve();
    await writing;
    const during = memory.count('IPv4', async () => {
      await write(true);
      return [];
    });
    await assert.rejects(during, raced);
    assert.equal(await incarnation('IPv4'), 3);
  });
});
