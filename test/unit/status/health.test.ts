import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CALM, foundOutOfSync } from '../../../lib/agent/out-of-sync.ts';
import type { FamilyState, State } from '../../../lib/agent/state.ts';
import { InvalidConfigError } from '../../../lib/config/invalid-config.ts';
import { problem } from '../../../lib/config/problem.ts';
import { liveness, type ProbeCheck, readiness } from '../../../lib/status/health.ts';
import { probeReply } from '../../../lib/status/probes.ts';
import { familyOf } from './support.ts';

function textOf(checks: readonly ProbeCheck[], verbose = false): string {
  return probeReply(checks, verbose).body.toString();
}

function synced(syncedAt: number): FamilyState {
  return familyOf({ family: 'IPv4', from: [], entries: [] }, { syncedAt });
}

const GOOD = {
  pending: undefined,
  lastRound: undefined,
  invalid: undefined,
  outOfSync: CALM,
  valid: undefined,
};

describe('liveness', () => {
  for (const [what, endedAt, hasConfig, isGood] of [
    ['lasts three intervals after a round, whatever it has found', 70_000, true, true],
    ['ends after three intervals', 69_999, true, false],
    ['is missing before the first round', undefined, true, false],
    ['needs no round without a config', undefined, false, true],
  ] as const)
    it(what, () => {
      const lastRound = endedAt === undefined ? undefined : { endedAt, pauseEndsAt: endedAt, inSync: false };
      // Without a resyncInterval of its own.
      const valid = (hasConfig ? { config: {} } : undefined) as State['valid'];
      const [check] = liveness({ lastRound, valid }, 10_000, 100_000);
      assert.equal(check?.isGood, isGood, check?.reason);
    });
});

describe('readiness', () => {
  it('is missing while the rules are out of sync for long, with the reason', () => {
    const outOfSync = foundOutOfSync(CALM, 'nft changes them', 0);
    const families = new Map([['IPv4', synced(5_000)]] as const);
    const checks = readiness({ ...GOOD, outOfSync, families }, ['IPv4'], 1000, 5_000);
    assert.match(textOf(checks), /^\[-\] rules: nft changes them\nnot ok\n$/);
  });

  for (const [what, families, expected] of [
    ['is missing before the first sync', new Map(), false],
    ['lasts three intervals', new Map([['IPv4', synced(70_000)]]), true],
    ['ends after three intervals', new Map([['IPv4', synced(69_999)]]), false],
  ] as const) {
    it(what, () => {
      const checks = readiness({ ...GOOD, families: new Map(families) }, ['IPv4'], 10_000, 100_000);
      const states = checks.map(({ isGood }) => isGood);
      assert.deepEqual(states, [true, expected, true]);
    });
  }

  for (const [what, inSync, isGood] of [
    ['needs no sync while the first config of this run is pending', undefined, true],
    ['is missing if another program blocks the rules then', false, false],
  ] as const)
    it(what, () => {
      const waits = {
        pending: { hash: 'a', dueAt: 0 },
        lastRound: { endedAt: 0, pauseEndsAt: 0, inSync },
      };
      const checks = readiness({ ...GOOD, ...waits, families: new Map() }, ['IPv4'], 1000, 0);
      const sync = checks.find(({ name }) => name === 'sync IPv4');
      assert.equal(sync?.isGood, isGood, sync?.reason);
    });

  it('needs every family that is kept', () => {
    const checks = readiness(
      { ...GOOD, families: new Map([['IPv4', synced(0)]]) },
      ['IPv4', 'IPv6'],
      1000,
      0.4,
    );
    const bad = '[-] sync IPv6: no sync has succeeded yet\n';
    const rules = '[+] rules: they have not been out of sync for long\n';
    const config = '[+] config: no error at the last reading\n';
    assert.equal(
      textOf(checks, true),
      `${config}[+] sync IPv4: last sync 0.001 s ago, the limit is 3 s\n${bad}${rules}not ok\n`,
    );
    assert.equal(textOf(checks), `${bad}not ok\n`);
  });

  it('is missing while the config is invalid, with the first error', () => {
    const at = { kind: 'whole-file', file: 'ip-masq-a' } as const;
    const error = new InvalidConfigError([problem('syntax', { at, message: 'a', remedy: 'b' })]);
    const checks = readiness({ ...GOOD, invalid: { error, since: 0 }, families: new Map() }, [], 1000, 0);
    assert.match(
      textOf(checks),
      /^\[-\] config: 1 error in the config since 1970-.* ip-masq-a: .*\nnot ok\n$/,
    );
  });

  it('is one word where all is good, and nobody asks for more', () => {
    const checks = readiness({ ...GOOD, families: new Map([['IPv4', synced(0)]]) }, ['IPv4'], 1000, 0);
    assert.equal(textOf(checks), 'ok\n');
  });
});
