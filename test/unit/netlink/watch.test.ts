import assert from 'node:assert/strict';
import { syncBuiltinESMExports } from 'node:module';
import { describe, it, type TestContext } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { kernelError } from '../../../lib/netlink/error.ts';
import { noteOwnPort } from '../../../lib/netlink/own-ports.ts';
import { NetlinkSocket } from '../../../lib/netlink/socket.ts';
import { openChangeWatch } from '../../../lib/netlink/watch.ts';
import { CAPTURED } from './captured.ts';

const bytesOf = (hex: string) => Buffer.from(hex.replaceAll(/\s/g, ''), 'hex');
const RULE = bytesOf(CAPTURED.rule);
const GENERATION = bytesOf(CAPTURED.generation);
/** A message of another process, and the kernel's word for lost messages. */
const [NOISE, LOST] = [Buffer.alloc(0), 'lost'];
const ENOBUFS = 105;

/** A watch of the table of the rule, whose socket has what the test puts there. */
function create({ mock }: TestContext) {
  const waiting: (Buffer | typeof LOST)[] = [];
  let reads = 0;
  let wake = () => {};
  mock.method(NetlinkSocket.prototype, 'subscribe', () => {});
  mock.method(NetlinkSocket.prototype, 'receive', () => {
    reads += 1;
    const next = waiting.shift();
    if (next === LOST) throw kernelError(ENOBUFS, 'receive');
    return next;
  });
  mock.method(NetlinkSocket.prototype, 'readable', () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    wake = resolve;
    return promise;
  });
  const watch = openChangeWatch([{ family: 'IPv4', table: 't' }]);
  return {
    watch,
    reads: () => reads,
    put: (...datagrams: readonly (Buffer | typeof LOST)[]) => {
      for (const one of datagrams) waiting.push(one);
    },
    wake: () => wake(),
  };
}

/** Lets only this move timers. */
function clock(context: TestContext) {
  const { mock } = context;
  mock.timers.enable({ apis: ['setTimeout'] });
  syncBuiltinESMExports();
  context.after(() => {
    mock.timers.reset();
    syncBuiltinESMExports();
  });
  return async (ms: number) => {
    mock.timers.tick(ms);
    for (let turns = 0; turns < 9; turns += 1) await turn();
  };
}

describe('a watch of changes', () => {
  it('gives other events their turn while another process floods its socket', async (context) => {
    const { watch, reads, put } = create(context);
    // On a busy machine, the pause may be over before the turn.
    for (let count = 0; count < 40_000; count += 1) put(NOISE);
    setImmediate(() => watch[Symbol.dispose]());
    assert.equal((await watch[Symbol.asyncIterator]().next()).done, true);
    assert.ok(reads() < 40_000, `${reads()} reads`);
  });

  it('says that changes are lost until all that waits has been read', async (context) => {
    const pass = clock(context);
    const { watch, put, wake } = create(context);
    using _ = watch;
    // Meanwhile the kernel drops others, and says nothing.
    put(RULE, LOST, ...Array.from({ length: 10_000 }, () => NOISE), GENERATION);
    const told: unknown[] = [];
    void (async () => {
      for await (const { items, lost } of watch) told.push([items.map(({ id }) => id), lost]);
    })();
    await pass(0);
    wake();
    await pass(0);
    put(RULE, GENERATION);
    await pass(50);
    assert.deepEqual(told, [
      [[], true],
      [[3], true],
      [[3], false],
    ]);
  });

  it('does not name this process or its tools, of which it forgets the oldest', async (context) => {
    const { watch, put } = create(context);
    using _ = watch;
    const events = watch[Symbol.asyncIterator]();
    const port = GENERATION.readUInt32LE(12);
    const named = async () => {
      put(RULE, GENERATION);
      return (await events.next()).value.items[0].process;
    };
    const noteOthers = (count: number) => {
      for (let other = 1; other <= count; other += 1) noteOwnPort(port + other);
    };
    assert.equal(await named(), 'nft');
    noteOwnPort(port);
    noteOthers(15);
    assert.equal(await named(), undefined);
    noteOwnPort(port);
    noteOthers(15);
    assert.equal(await named(), undefined);
    noteOthers(16);
    assert.equal(await named(), 'nft');
  });
});
