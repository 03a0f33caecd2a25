import assert from 'node:assert/strict';
import { it } from 'node:test';
import { pino } from 'pino';
import { type Observer, syncs } from '../../../lib/agent/loop.ts';
import type { SyncReason } from '../../../lib/agent/wakes.ts';
import { DEFAULT_LIMITS } from '../../../lib/config/limits.ts';
import type { Dataplane } from '../../../lib/dataplane/dataplane.ts';
import { temporaryDirectory } from '../../lab/volume.ts';

it('a start, a resync and a signal read everything from the kernel, other syncs trust what was written last', async () => {
  await using dir = await temporaryDirectory();
  const asked: (readonly [SyncReason | undefined, string | undefined])[] = [];
  let reason: SyncReason | undefined;
  const dataplane: Dataplane = {
    name: 'fake',
    reason: 'a test',
    iptables: undefined,
    observe: async (_, from) => {
      asked.push([reason, from]);
      return { plan: () => undefined, remove: () => undefined, fates: () => assert.fail() };
    },
    apply: () => assert.fail(),
    count: () => assert.fail(),
  };
  const expected = [
    ['start', 'kernel'],
    ['change', 'memory'],
    ['drift', 'memory'],
    ['check', 'memory'],
    ['signal', 'kernel'],
    ['resync', 'kernel'],
  ] as const;
  function* wakes() {
    for ([reason] of expected) yield { reason, since: 0 };
  }
  const config = {
    ...DEFAULT_LIMITS,
    enableIPv6: false,
    strict: false,
    noMasqAllReservedRanges: false,
    requiredSources: [],
    guard: () => [],
  };
  const agent = {
    sources: { configDir: dir.path, config, resyncInterval: 1_000 },
    syncTimeout: 1_000,
    lock: async () => {},
    open: async () => dataplane,
  };
  const observer: Observer = {
    onLoad: () => {},
    onInvalidConfig: (error) => assert.fail(error),
    onDataplane: () => {},
    onRetry: (error) => assert.fail(error),
    onSync: () => {},
    onFailure: () => assert.fail(),
  };
  const log = pino({ level: 'silent' });
  const signal = new AbortController().signal;
  for await (const step of syncs(agent, wakes(), observer, log, signal)) assert.equal(step.kind, 'synced');
  assert.deepEqual(asked, expected);
});
