import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { buildInfo } from '../../../cmd/ip-masq-agent/build-info.ts';
import type { Dataplane } from '../../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import type { Host } from '../../../lib/dataplane/host.ts';
import { StatusObserver } from '../../../lib/status/observer.ts';
import { Recorder } from '../../../lib/status/recorder.ts';
import { createForeignWatch } from '../../../lib/watchers/foreign-watch.ts';
import { capturedLog } from '../../lab/log.ts';
import { olderAgentRules } from '../../lab/older-agent.ts';

const DATAPLANE: Dataplane = {
  name: 'nftables',
  reason: 'test',
  ruleCount: () => 0,
  iptables: undefined,
  hearsChanges: true,
  observe: () => assert.fail(),
  count: () => assert.fail(),
};

const HOST: Host = { run: () => assert.fail(), readText: async () => '' };
const NO_LEFTOVERS = { returned: [], removals: 0, removeOnce: async () => undefined };
const SURROUNDINGS = {
  leftovers: NO_LEFTOVERS,
  onRemoval: () => {},
  findPods: async () => [],
  signal: new AbortController().signal,
};

/** Reads so often, while leftovers cannot be removed; what was logged. */
async function logged(readings: number, error: unknown): Promise<ReturnType<typeof capturedLog>['lines']> {
  const { log, lines } = capturedLog();
  let runs = 0;
  const removeOnce = async () => {
    runs += 1;
    throw error;
  };
  const status = new StatusObserver(new Recorder(), buildInfo());
  const leftovers = { ...NO_LEFTOVERS, removeOnce };
  const watch = createForeignWatch({ ...SURROUNDINGS, host: HOST, log, status, leftovers });
  for (let reading = 1; reading <= readings; reading += 1) {
    watch.read({ dataplane: DATAPLANE, chain: 'IP-MASQ-AGENT', policies: [] });
    while (runs < reading) await setImmediate();
    for (let turn = 0; turn < 10; turn += 1) await setImmediate();
  }
  return lines;
}

const WARNING = 40;

describe('a reading of foreign rules that fails', () => {
  for (const [what, error, said] of [
    [
      'the kernel refuses',
      new DataplaneError('denied', 'not permitted', 'be root'),
      /: not permitted; be root$/,
    ],
    ['the agent has a bug', new TypeError('it is undefined'), /: bug: TypeError: it is undefined\n +at /],
    ['something throws no error', 'just a text', /: bug: just a text$/],
  ] as const) {
    it(`is one warning, and no failure of the agent: ${what}`, async () => {
      const lines = await logged(3, error);
      assert.deepEqual(
        lines.map(({ level }) => level),
        [WARNING],
      );
      assert.match(String(lines[0]?.['msg']), said);
    });
  }
});

it('rules of another agent that have come back are one warning, and a removal is told', async () => {
  const dataplane = { ...DATAPLANE, name: 'iptables (legacy)' };
  const returned = [{ family: 'IPv4', dataplane, rules: olderAgentRules() }] as const;
  const { log, lines } = capturedLog();
  const [status, told] = [new StatusObserver(new Recorder(), buildInfo()), Promise.withResolvers<void>()];
  let removals = 0;
  const leftovers = {
    returned,
    get removals() {
      removals += 1;
      return removals;
    },
    removeOnce: async () => undefined,
  };
  const watch = createForeignWatch({
    ...SURROUNDINGS,
    host: HOST,
    log,
    status,
    leftovers,
    onRemoval: told.resolve,
  });
  const read = () => watch.read({ dataplane: DATAPLANE, chain: 'IP-MASQ-AGENT', policies: [] });
  read();
  await told.promise;
  while (status.suspects === undefined) await setImmediate();
  assert.deepEqual(status.suspects, {
    suspects: [],
    unread: ['nf_tables: netlink does not work: there is none'],
  });
  const own = { dataplane: DATAPLANE, chain: 'IP-MASQ-AGENT', policies: [] };
  assert.deepEqual(await watch.suspects(own), [`not read: ${status.suspects.unread.join()}`]);
  read();
  for (let turn = 0; turn < 20; turn += 1) await setImmediate();
  assert.match(
    lines.map(({ msg }) => msg).join(),
    /^IPv4: rules that this agent removed from iptables \(legacy\) are back/,
  );
  assert.equal(lines.length, 1);
});
