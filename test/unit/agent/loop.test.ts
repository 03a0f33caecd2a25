import assert from 'node:assert/strict';
import { it } from 'node:test';
import { pino } from 'pino';
import { type Observer, type Step, syncs } from '../../../lib/agent/loop.ts';
import type { SyncReason, Wake } from '../../../lib/agent/wakes.ts';
import { DEFAULT_LIMITS } from '../../../lib/config/limits.ts';
import type { Dataplane, Plan } from '../../../lib/dataplane/dataplane.ts';
import { temporaryDirectory } from '../../lab/volume.ts';

/** The steps of an agent without a config file, for IPv4. */
async function* stepsOf(
  observe: Dataplane['observe'],
  wakes: Iterable<Pick<Wake, 'reason' | 'by'>>,
): AsyncGenerator<Step, void> {
  await using dir = await temporaryDirectory();
  const dataplane: Dataplane = {
    name: 'fake',
    reason: 'a test',
    iptables: undefined,
    observe,
    apply: async () => {},
    count: () => assert.fail(),
  };
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
    ownAddresses: () => [],
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
  function* all() {
    for (const wake of wakes) yield { ...wake, since: 0 };
  }
  const { signal } = new AbortController();
  yield* syncs(agent, all(), observer, pino({ level: 'silent' }), signal);
}

it('a start, a resync and a signal read everything from the kernel, other syncs trust what was written last', async () => {
  const asked: (readonly [SyncReason | undefined, string | undefined])[] = [];
  let reason: SyncReason | undefined;
  const observe: Dataplane['observe'] = async (_, from) => {
    asked.push([reason, from]);
    return { plan: () => undefined, remove: () => undefined, fates: () => assert.fail() };
  };
  const expected = [
    ['start', 'kernel'],
    ['change', 'memory'],
    ['drift', 'memory'],
    ['addresses', 'memory'],
    ['check', 'memory'],
    ['signal', 'kernel'],
    ['resync', 'kernel'],
  ] as const;
  function* wakes() {
    for ([reason] of expected) yield { reason };
  }
  for await (const step of stepsOf(observe, wakes())) assert.equal(step.kind, 'synced');
  assert.deepEqual(asked, expected);
});

it('a step tells the drift that a look at the kernel has found, with the programs', async () => {
  const rules = { added: [], removed: [], kept: 0, current: [], wanted: [] };
  const differs: Plan = { family: 'IPv4', found: [], ...rules, remakes: true, recheck: false, script: '' };
  let plan: Plan | undefined;
  const observe: Dataplane['observe'] = async (family) => {
    const now = plan;
    return { plan: () => now, remove: () => now, fates: () => ({ state: 'no chain', family, fates: [] }) };
  };
  const by = ['nft'];
  const expected = [
    ['start', differs, undefined],
    ['drift', differs, by],
    ['drift', undefined, undefined],
    ['check', differs, by],
    ['check', undefined, undefined],
    ['resync', differs, undefined],
  ] as const;
  function* wakes() {
    for (const [reason, needed] of expected) {
      plan = needed;
      yield { reason, by };
    }
  }
  const told: unknown[] = [];
  for await (const step of stepsOf(observe, wakes())) told.push(step.kind === 'synced' && step.drift);
  assert.deepEqual(
    told,
    expected.map(([, , drift]) => drift),
  );
});
