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
import { fakeHost, policyOf } from '../foreign/support.ts';

const DATAPLANE: Dataplane = {
  name: 'nftables',
  reason: 'test',
  chosenBy: 'flag',
  ruleCount: () => 0,
  iptables: undefined,
  hearsChanges: true,
  observe: () => assert.fail(),
  count: () => assert.fail(),
};

const NO_LEFTOVERS = { returned: [], removeOnce: async () => undefined };
const SURROUNDINGS = {
  leftovers: NO_LEFTOVERS,
  accepted: [],
  findPods: async () => [],
  signal: new AbortController().signal,
};

/** Reads so often, with a host of which every command fails with the error; what was logged. */
async function logged(readings: number, error: unknown): Promise<ReturnType<typeof capturedLog>['lines']> {
  const { log, lines } = capturedLog();
  let runs = 0;
  const host: Host = {
    run: async () => {
      runs += 1;
      throw error;
    },
    readText: async () => '',
  };
  const status = new StatusObserver(new Recorder(), buildInfo());
  const watch = createForeignWatch({ ...SURROUNDINGS, host, log, status });
  const dataplane = { ...DATAPLANE, iptables: { mode: 'nft', suffix: '-nft' } } as const;
  for (let reading = 1; reading <= readings; reading += 1) {
    watch.read({ dataplane, chain: 'IP-MASQ-AGENT', policies: [policyOf('10.0.0.0/8')] });
    while (runs < reading) await setImmediate();
    await setImmediate();
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

for (const accepted of [[], ['ip-masq-agent']])
  it(`rules of another agent that have come back are foreign rules in the status, accepted: ${accepted}`, async () => {
    const status = new StatusObserver(new Recorder(), buildInfo());
    const dataplane = { ...DATAPLANE, name: 'iptables (legacy)' };
    const returned = [{ family: 'IPv4', dataplane, rules: olderAgentRules() }] as const;
    const host = fakeHost({});
    const leftovers = { ...NO_LEFTOVERS, returned };
    const { log } = capturedLog();
    const watch = createForeignWatch({ ...SURROUNDINGS, host, log, status, leftovers, accepted });
    watch.read({ dataplane: DATAPLANE, chain: 'IP-MASQ-AGENT', policies: [policyOf('10.0.0.0/8')] });
    while (status.foreign.length === 0) await setImmediate();
    assert.deepEqual(
      status.foreign.map(({ family, rules, evidence, isAccepted }) => [family, rules, evidence, isAccepted]),
      [['IPv4', 1, olderAgentRules(), accepted.length > 0]],
    );
  });
