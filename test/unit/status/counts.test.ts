import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Round } from '../../../lib/agent/loop.ts';
import type { FamilySync } from '../../../lib/agent/next-state.ts';
import type { Reason } from '../../../lib/agent/reasons.ts';
import type { DifferenceKind, EntryCount } from '../../../lib/dataplane/dataplane.ts';
import { compilePolicy } from '../../../lib/policy/policy.ts';
import { countRound, setPacketCounts } from '../../../lib/status/counts.ts';
import { Metrics } from '../../../lib/status/registry.ts';
import { mergedOf } from '../config/support.ts';
import { readerOf } from './support.ts';

function create() {
  const metrics = new Metrics();
  const count = (round: Round) => countRound(metrics, round);
  return { metrics, count, ...readerOf(metrics) };
}

interface RoundOptions extends Partial<Omit<Round, 'syncs' | 'trigger'>> {
  /** Undefined where nothing differed. */
  readonly found?: readonly DifferenceKind[];
  readonly drifted?: boolean;
  readonly reason?: Reason;
  readonly by?: readonly string[] | undefined;
}

/** A round of IPv4 that has taken a quarter of a second. */
function round({ found, drifted = false, reason = 'resync', by, ...more }: RoundOptions = {}): Round {
  const sync: FamilySync = { family: 'IPv4', found, verdicts: undefined, drifted };
  const trigger = { reason, since: 0, by };
  return { trigger, retries: [], syncs: [sync], inSync: true, latency: 250, ...more };
}

describe('what a round has done', () => {
  it('is counted by family and result, beginning with zero for each', async () => {
    const { count, value, series } = create();
    count(round({ found: ['no readable chain'] }));
    assert.equal(await value('syncs_total', 'family="IPv4"', 'result="unchanged"'), 0);
    assert.equal(await value('drift_repairs_total', 'family="IPv4"', 'program="nft"'), 0);
    assert.equal(await value('sync_retries_total', 'reason="raced"'), 0);
    count(round());
    // It has changed the rules, although another program has changed them again.
    count(round({ inSync: false, found: ['rules differ'], drifted: true }));
    count(round({ inSync: false }));
    count(round({ reason: 'kernel' }));
    for (const [result, expected] of [
      ['changed', 2],
      ['unchanged', 1],
    ] as const)
      assert.equal(await value('syncs_total', 'family="IPv4"', `result="${result}"`), expected, result);
    assert.equal((await series('syncs_total')).length, 2);
    assert.equal(await value('sync_duration_seconds_count', 'family="IPv4"'), 2);
    assert.equal(await value('sync_duration_seconds_sum', 'family="IPv4"'), 0.5);
    assert.equal(await value('drift_repairs_total', 'family="IPv4"', 'program="unknown"'), 0);
  });

  for (const [reason, found, reactions] of [
    ['change', ['rules differ'], 1],
    ['change', undefined, 0],
    ['resync', ['rules differ'], 0],
    ['start', ['rules differ'], 0],
  ] as const)
    it(`is ${reactions === 1 ? 'a' : 'no'} reaction: ${reason}, ${found ?? 'unchanged'}`, async () => {
      const { count, value } = create();
      count(round({ reason, ...(found && { found }) }));
      assert.equal(await value('reaction_duration_seconds_count'), reactions);
      assert.equal(await value('reaction_duration_seconds_sum'), reactions * 0.25);
    });

  it('counts as a repair once, whatever it has found, if another program has changed the rules', async () => {
    const { count, value } = create();
    count(round({ found: ['rules differ'] }));
    count(round({ found: ['rules differ', 'jump missing'], drifted: true }));
    count(round({ found: ['jump missing'], drifted: true }));
    assert.equal(await value('drift_repairs_total', 'family="IPv4"', 'program="unknown"'), 2);
  });

  /** By the label of a repair: the programs before it. */
  const programs: Readonly<Record<string, readonly (readonly string[] | undefined)[]>> = {
    unknown: [undefined, []],
    nft: [['nft']],
    iptables: [['iptables'], ['iptables-nft'], ['ip6tables-nft']],
    'iptables-restore': [['iptables-restor'], ['iptables-nft-re'], ['ip6tables-resto'], ['ip6tables-nft-r']],
    other: [['dockerd'], ['unknown'], ['several'], ['nft\n']],
    several: [['nft', 'dockerd']],
  };
  for (const [program, cases] of Object.entries(programs))
    for (const by of cases)
      it(`is a repair after ${by?.join(' and ') || 'nobody'} under ${program}`, async () => {
        const { count, series } = create();
        count(round({ found: ['rules differ'], drifted: true, by }));
        const counted = (await series('drift_repairs_total')).filter((line) => !line.endsWith(' 0'));
        assert.deepEqual(counted, [
          `ip_masq_agent_drift_repairs_total{family="IPv4",program="${program}"} 1`,
        ]);
      });

  it('has retries by reason', async () => {
    const { count, value } = create();
    count(round({ retries: ['busy', 'busy', 'raced'] }));
    assert.equal(await value('sync_retries_total', 'reason="busy"'), 2);
    assert.equal(await value('sync_retries_total', 'reason="raced"'), 1);
  });
});

it('what the kernel has counted is shown as it is, by config file where it is left alone', async () => {
  const { metrics, series, value } = create();
  const config = mergedOf({
    a: 'nonMasqueradeCIDRs: [10.0.0.0/8]\n',
    b: 'nonMasqueradeCIDRs: [11.0.0.0/8, 12.0.0.0/8]\nmasqueradeCIDRs: [10.1.0.0/16]\n',
  });
  const { entries } = compilePolicy(config, 'IPv4');
  const count = (cidr: string | undefined, countedAs: EntryCount['countedAs'], packets: bigint) => {
    const entry = entries.find(({ prefix }) => prefix.text === cidr);
    return { entry, countedAs, packets };
  };
  const counts = [
    count('10.0.0.0/8', 'not_masqueraded', 3n),
    count('11.0.0.0/8', 'not_masqueraded', 20n),
    count('12.0.0.0/8', 'not_masqueraded', 4n),
    count('10.1.0.0/16', 'masqueraded', 100n),
    count(undefined, 'masqueraded', 1000n),
    count(undefined, 'invalid', 5n),
  ];
  for (const family of ['IPv4', 'IPv4'] as const) setPacketCounts(metrics, new Map([[family, counts]]));
  assert.equal(await value('not_masqueraded_connections_total', 'family="IPv4"', 'file="a"'), 3);
  assert.equal(await value('not_masqueraded_connections_total', 'family="IPv4"', 'file="b"'), 24);
  assert.equal(await value('masqueraded_connections_total', 'family="IPv4"'), 1100);
  assert.equal(await value('invalid_packets_total', 'family="IPv4"'), 5);
  assert.deepEqual(await series('connections_from_elsewhere_total'), []);
  // The rules were written again, those of a are gone, and where packets come from decides too.
  const rest = [count('11.0.0.0/8', 'not_masqueraded', 0n), count(undefined, 'not_masqueraded', 3n)];
  setPacketCounts(metrics, new Map([['IPv4', rest]]));
  assert.deepEqual(await series('not_masqueraded_connections_total'), [
    'ip_masq_agent_not_masqueraded_connections_total{family="IPv4",file="b"} 0',
  ]);
  assert.equal(await value('connections_from_elsewhere_total', 'family="IPv4"'), 3);
  assert.deepEqual(await series('invalid_packets_total'), []);
});
