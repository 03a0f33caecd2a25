import assert from 'node:assert/strict';
import { it } from 'node:test';
import { pino } from 'pino';
import { type Observer, type Step, syncs } from '../../../lib/agent/loop.ts';
import type { Wake } from '../../../lib/agent/wakes.ts';
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
    cpuTime: () => 0,
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
    onLook: () => {},
    onFailure: () => assert.fail(),
  };
  function* all() {
    for (const wake of wakes) yield { ...wake, since: 0 };
  }
  const { signal } = new AbortController();
  yield* syncs(agent, all(), observer, pino({ level: 'silent' }), signal);
}

it('a step tells the drift that was found, with the programs, and whether the kernel holds the policy', async () => {
  const rules = { added: [], removed: [], kept: 0, current: [], wanted: [] };
  let needed: readonly boolean[] = [];
  let looks = 0;
  const observe: Dataplane['observe'] = async (family) => {
    const differs = needed[looks] ?? false;
    looks += 1;
    const apply = async () => {};
    const plan: Plan = { family, found: [], ...rules, remakes: true, script: '', apply };
    return {
      isTrusted: !differs,
      generation: looks,
      plan: () => (differs ? plan : undefined),
      trust: () => {},
      remove: () => plan,
      fates: () => ({ state: 'no chain', family, fates: [] }),
    };
  };
  const by = ['nft'];
  // What differs at the first look of a sync, and at the reading back.
  const expected = [
    ['start', [true, false], undefined, true],
    ['drift', [true, false], by, true],
    ['drift', [false], undefined, true],
    ['drift', [true, true], by, false],
    ['resync', [true, false], by, true],
  ] as const;
  function* wakes() {
    for (const [reason, differences] of expected) {
      needed = differences;
      looks = 0;
      yield { reason, by };
    }
  }
  const told: unknown[] = [];
  for await (const step of stepsOf(observe, wakes()))
    if (step.kind === 'synced') told.push([step.drift, step.isHeld]);
  assert.deepEqual(
    told,
    expected.map(([, , drift, isHeld]) => [drift, isHeld]),
  );
});
