import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { buildInfo } from '../../../cmd/ip-masq-agent/build-info.ts';
import type { ValidConfig } from '../../../lib/agent/load.ts';
import type { FamilySyncEvent } from '../../../lib/agent/observer.ts';
import type { SyncReason } from '../../../lib/agent/triggers.ts';
import { InvalidConfigError } from '../../../lib/config/invalid-config.ts';
import {
  type Dataplane,
  DIFFERENCES,
  type DifferenceKind,
  type EntryCount,
  type Plan,
} from '../../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import { compilePolicy, type Policy } from '../../../lib/policy/policy.ts';
import { METRIC_PREFIX, Metrics } from '../../../lib/status/metrics.ts';
import { StatusObserver } from '../../../lib/status/observer.ts';
import { Recorder } from '../../../lib/status/recorder.ts';
import { loadedOf, merge, mergedOf } from '../config/support.ts';

const TEXTS = {
  a: 'nonMasqueradeCIDRs: [10.0.0.0/8, 10.0.0.0/8, fd00::/8]\nmasqueradeCIDRs: [10.1.0.0/16]\n',
  b: 'masqLinkLocal: true\n',
};

describe('the status', () => {
  it('counts readings of the config files, and describes the last valid one', async () => {
    const { status, value, series } = create();
    status.onLoad(loaded({ ...TEXTS, c: 'masqLinkLocal: false\n' }));
    assert.equal(await value('config_files'), 3);
    assert.equal(await value('config_problems', 'severity="warning"', 'kind="link-local-flag"'), 1);
    assert.equal(await value('config_problems', 'severity="info"', 'kind="duplicate"'), 1);
    assert.equal((await series('config_file_info')).length, 3);
    const [first] = await series('config_info');
    status.onInvalidConfig(new InvalidConfigError([]));
    assert.deepEqual(await series('config_info'), [first]);
    assert.equal(await value('config_files'), 3);
    status.onLoad(loaded({ b: 'nonMasqueradeCIDRs: [10.0.0.0/8]\n' }));
    const conflicts = await series('config_problems');
    assert.ok(conflicts.length > 1 && conflicts.every((line) => line.endsWith(' 0')), conflicts.join());
    assert.deepEqual(await series('config_file_info'), ['ip_masq_agent_config_file_info{file="b"} 1']);
    const [second, ...more] = await series('config_info');
    assert.deepEqual(more, []);
    assert.notEqual(second, first);
    assert.equal(await value('config_loads_total', 'result="valid"'), 2);
    assert.equal(await value('config_loads_total', 'result="invalid"'), 1);
    assert.deepEqual(status.loaded?.config.configFileNames, ['b']);
  });

  it('counts the errors of a refused config by kind, and hashes what is refused, until it is valid', async () => {
    const { status, value, series } = create();
    const refuse = (text: string) => {
      const { problems } = merge({ a: text });
      status.onInvalidConfig(new InvalidConfigError(problems, [{ name: 'a', text }]));
    };
    refuse('nonMasqueradeCIDRs: [10.0.0.1/8, 10.0.0.2/8]\nx: 1\n');
    assert.equal(await value('config_errors', 'kind="cidr"'), 2);
    assert.equal(await value('config_errors', 'kind="unknown-key"'), 1);
    const [first] = await series('config_refused_info');
    refuse('y: 1\n');
    assert.equal((await series('config_errors')).length, 1);
    const [second, ...more] = await series('config_refused_info');
    assert.deepEqual(more, []);
    assert.notEqual(second, first);
    status.onLoad(loaded({ a: 'nonMasqueradeCIDRs: [10.0.0.0/8]\n' }));
    assert.deepEqual([await series('config_errors'), await series('config_refused_info')], [[], []]);
  });

  it('says when the config files were valid last, also if they are not now', async (t) => {
    const { status, value } = create();
    const at = async () => value('config_last_valid_timestamp_seconds');
    t.mock.timers.enable({ apis: ['Date'], now: 1_000_000 });
    const read = loaded(TEXTS);
    status.onLoad(read);
    assert.equal(await at(), 1_000);
    t.mock.timers.tick(60_000);
    status.onLoad(read);
    assert.equal(await at(), 1_060);
    t.mock.timers.tick(60_000);
    status.onInvalidConfig(new InvalidConfigError([]));
    assert.equal(await at(), 1_060);
    // That of an earlier run is in use, and was not read now.
    status.onLoad({ ...read, earlier: { configFiles: [], since: '1970-01-01T00:00:01.000Z', families: [] } });
    assert.equal(await at(), 1_060);
  });

  it('knows what was found at the last change of each family, also after syncs that change nothing', () => {
    const { status } = create();
    status.onSync(sync({ found: ['no readable chain', 'jump missing'] }));
    const other = policy('IPv4', { a: 'nonMasqueradeCIDRs: [10.0.0.0/8]\n' });
    status.onSync(sync({ policy: other }));
    const known = status.families.get('IPv4');
    assert.equal(known?.policy, other);
    assert.deepEqual(known.lastFound, ['no readable chain', 'jump missing']);
    assert.equal(status.families.get('IPv6'), undefined);
  });

  it('has no change to tell of where the first sync has found the rules as they are to be', () => {
    const { status } = create();
    status.onSync(sync());
    const { lastChange, lastFound } = status.families.get('IPv4') ?? {};
    assert.deepEqual([lastChange, lastFound], [undefined, []]);
  });

  it('counts syncs by family and result, beginning with zero for each', async () => {
    const { status, value, series } = create();
    status.onSync(sync({ found: ['no readable chain'] }));
    assert.equal(await value('syncs_total', 'family="IPv4"', 'result="unchanged"'), 0);
    assert.equal(await value('syncs_total', 'family="IPv4"', 'result="failed"'), 0);
    assert.equal(await value('drift_repairs_total', 'family="IPv4"', 'program="nft"'), 0);
    assert.equal(await value('sync_retries_total', 'reason="raced"'), 0);
    assert.ok((await series('syncs_total')).every((line) => line.includes('IPv4')));
    status.onSync(sync());
    status.onFailure(['IPv4', 'IPv6']);
    for (const result of ['changed', 'unchanged', 'failed'])
      assert.equal(await value('syncs_total', 'family="IPv4"', `result="${result}"`), 1, result);
    assert.equal(await value('syncs_total', 'family="IPv6"', 'result="failed"'), 1);
    assert.equal(await value('sync_duration_seconds_count', 'family="IPv4"'), 2);
    assert.equal(await value('sync_duration_seconds_sum', 'family="IPv4"'), 0.5);
  });

  it('gives the times of the last success and the last change in seconds', async () => {
    const { status, value } = create();
    status.onSync(sync({ found: ['rules differ'] }));
    const changed = (status.families.get('IPv4')?.lastChange ?? 0) / 1000;
    status.onSync(sync());
    const synced = (status.families.get('IPv4')?.lastSuccess ?? 0) / 1000;
    assert.equal(await value('last_change_timestamp_seconds', 'family="IPv4"'), changed);
    assert.equal(await value('last_sync_success_timestamp_seconds', 'family="IPv4"'), synced);
  });

  for (const [reason, found, reactions] of [
    ['change', ['rules differ'], 1],
    ['change', undefined, 0],
    ['resync', ['rules differ'], 0],
    ['start', ['rules differ'], 0],
    ['signal', ['rules differ'], 0],
  ] as const) {
    it(`takes a sync for ${reactions === 1 ? 'a' : 'no'} reaction: ${reason}, ${found ?? 'unchanged'}`, async () => {
      const { status, value } = create();
      status.onSync(sync({ reason, found }));
      assert.equal(await value('reaction_duration_seconds_count'), reactions);
      assert.equal(await value('reaction_duration_seconds_sum'), reactions * 0.25);
    });
  }

  it('counts repairs of what others have changed once each, and all that they found, and no changes of the config', async () => {
    const { status, value } = create();
    status.onSync(sync({ found: ['rules differ'] }));
    status.onSync(sync({ found: ['rules differ', 'jump missing'], drifted: true }));
    status.onSync(sync({ found: ['jump missing'], drifted: true }));
    assert.equal(await value('drift_repairs_total', 'family="IPv4"', 'program="unknown"'), 2);
    assert.equal(await value('drift_differences_total', 'family="IPv4"', 'found="rules differ"'), 1);
    assert.equal(await value('drift_differences_total', 'family="IPv4"', 'found="jump missing"'), 2);
  });

  for (const [iptables, differences] of [
    [{ mode: 'nft', suffix: '' }, DIFFERENCES.iptables],
    [undefined, DIFFERENCES.nftables],
  ] as const)
    it(`begins with the differences of the dataplane in use, ${iptables ? 'iptables' : 'nftables'}, and no others`, async () => {
      const { status, series } = create();
      status.onDataplane({
        name: 'x',
        iptables,
        ruleCount: () => 1,
      } as unknown as Dataplane);
      status.onSync(sync());
      const found = (await series('drift_differences_total')).map((line) => /found="(.*)"/.exec(line)?.[1]);
      assert.deepEqual(found, differences);
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
      it(`counts a repair after ${by?.join(' and ') || 'nobody'} under ${program}`, async () => {
        const { status, series } = create();
        status.onSync(sync({ found: ['rules differ'], drifted: true, by }));
        const counted = (await series('drift_repairs_total')).filter((line) => !line.endsWith(' 0'));
        assert.deepEqual(counted, [
          `ip_masq_agent_drift_repairs_total{family="IPv4",program="${program}"} 1`,
        ]);
      });

  it('counts the entries of a policy by verdict, and what they make in the kernel', async () => {
    const { status, value } = create();
    status.onSync(sync({ found: ['rules differ'] }));
    assert.equal(await value('config_entries', 'family="IPv4"', 'verdict="not_masqueraded"'), 1);
    assert.equal(await value('config_entries', 'family="IPv4"', 'verdict="masqueraded"'), 1);
    assert.equal(await value('rules', 'family="IPv4"'), 102);
    // As in nftables, where an exception from nothing makes no element: nothing differs in the kernel.
    status.onSync(sync({ policy: policy('IPv4', { a: 'masqueradeCIDRs: [8.8.8.0/24, 9.9.9.0/24]\n' }) }));
    assert.equal(await value('config_entries', 'family="IPv4"', 'verdict="masqueraded"'), 2);
    assert.equal(await value('rules', 'family="IPv4"'), 103);
  });

  it('counts attempts that were made again, and the time lost to a busy kernel', async () => {
    const { status, value } = create();
    status.onRetry(new DataplaneError('busy', '', ''), 1.5);
    status.onRetry(new DataplaneError('busy', '', ''), 2);
    status.onRetry(new DataplaneError('raced', '', ''), 4);
    assert.equal(await value('sync_retries_total', 'reason="busy"'), 2);
    assert.equal(await value('sync_retries_total', 'reason="raced"'), 1);
    assert.equal(await value('lock_wait_seconds_total'), 3.5);
  });

  it('says how full connection tracking is, and counts what it drops from the first reading on', async () => {
    const { status, value, series } = create();
    status.onConntrack({ entries: 50, most: 100, dropped: 7 });
    assert.equal(await value('conntrack_usage_ratio'), 0.5);
    status.onConntrack({ entries: 100, most: 100, dropped: 10 });
    assert.equal(await value('conntrack_usage_ratio'), 1);
    assert.equal(await value('conntrack_drops_total'), 3);
    status.onConntrack(undefined);
    assert.deepEqual(await series('conntrack_usage_ratio'), []);
    assert.equal(await value('conntrack_drops_total'), 3);
  });

  it('shows what the kernel has counted as it is, by config file where it is left alone', async () => {
    const { status, series, value } = create();
    const { entries } = policy('IPv4', {
      a: 'nonMasqueradeCIDRs: [10.0.0.0/8]\n',
      b: 'nonMasqueradeCIDRs: [11.0.0.0/8, 12.0.0.0/8]\nmasqueradeCIDRs: [10.1.0.0/16]\n',
    });
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
    for (const family of ['IPv4', 'IPv4'] as const) status.onCounts(new Map([[family, counts]]));
    assert.equal(await value('not_masqueraded_connections_total', 'family="IPv4"', 'file="a"'), 3);
    assert.equal(await value('not_masqueraded_connections_total', 'family="IPv4"', 'file="b"'), 24);
    assert.equal(await value('masqueraded_connections_total', 'family="IPv4"'), 1100);
    assert.equal(await value('invalid_packets_total', 'family="IPv4"'), 5);
    assert.deepEqual(await series('connections_from_elsewhere_total'), []);
    // The rules were written again, those of a are gone, and where packets come from decides too.
    const rest = [count('11.0.0.0/8', 'not_masqueraded', 0n), count(undefined, 'not_masqueraded', 3n)];
    status.onCounts(new Map([['IPv4', rest]]));
    assert.deepEqual(await series('not_masqueraded_connections_total'), [
      'ip_masq_agent_not_masqueraded_connections_total{family="IPv4",file="b"} 0',
    ]);
    assert.equal(await value('connections_from_elsewhere_total', 'family="IPv4"'), 3);
    assert.deepEqual(await series('invalid_packets_total'), []);
  });

  it('counts ranges by how many addresses of the node they hold, as long as a config lists any', async () => {
    const { status, series, value } = create();
    const own = [0x09000001n, 0x09000002n, 0x0a000001n, 0x0a000002n].map(
      (value, index) => ({ family: 'IPv4', value, rank: index === 3 ? 1 : 0 }) as const,
    );
    const items = ['9.0.0.0/8', '10.0.0.0/8', '11.0.0.0/8', '12.0.0.0/8'].map((address, index) => ({
      destination: `203.0.${index}.0/24`,
      address,
    }));
    const config = mergedOf({ b: JSON.stringify({ masqueradeAddresses: items }) });
    for (const family of ['IPv4', 'IPv6'] as const)
      status.onSync(sync({ policy: compilePolicy(config, family, own) }));
    for (const [found, count] of [
      ['none', 2],
      ['one', 1],
      ['several', 1],
    ] as const)
      assert.equal(await value('masquerade_address_ranges', 'family="IPv4"', `found="${found}"`), count);
    assert.equal((await series('masquerade_address_ranges')).length, 3);
    status.onSync(sync({}));
    assert.deepEqual(await series('masquerade_address_ranges'), []);
  });
});

/** A status, and what its metrics say. */
function create() {
  const recorder = new Recorder();
  const metrics = new Metrics();
  recorder.attach(metrics);
  const series = async (name: string): Promise<readonly string[]> => {
    return (await metrics.text())
      .split('\n')
      .filter((line) => new RegExp(`^${METRIC_PREFIX}${name}[{ ]`).test(line));
  };
  /** Of the only series with these labels; undefined where there is none. */
  const value = async (name: string, ...labels: readonly string[]): Promise<number | undefined> => {
    const found = (await series(name)).filter((line) => labels.every((label) => line.includes(label)));
    assert.ok(found.length <= 1, `several: ${found}`);
    return found[0] === undefined ? undefined : Number(found[0].split(' ').at(-1));
  };
  const status = new StatusObserver(recorder, buildInfo());
  const ruleCount = ({ entries }: Policy) => entries.length + 100;
  status.onDataplane({ name: 'fake', ruleCount } as Partial<Dataplane> as Dataplane);
  return { status, series, value };
}

function loaded(texts: Readonly<Record<string, string>>): ValidConfig {
  const { config, problems } = merge(texts);
  assert.ok(config);
  return loadedOf(config, problems);
}

function policy(family: Policy['family'], texts: Readonly<Record<string, string>> = TEXTS): Policy {
  return compilePolicy(mergedOf(texts), family);
}

interface SyncOptions {
  readonly policy?: Policy;
  /** Undefined where nothing differed. */
  readonly found?: readonly DifferenceKind[] | undefined;
  readonly drifted?: boolean;
  readonly reason?: SyncReason;
  readonly by?: readonly string[] | undefined;
}

/** A sync of IPv4 that has taken a quarter of a second. */
function sync({
  found,
  drifted = false,
  reason = 'resync',
  by,
  policy: given,
}: SyncOptions = {}): FamilySyncEvent {
  const plan = found === undefined ? undefined : ({ found } as unknown as Plan);
  const trigger = { reason, since: 0, by };
  return { policy: given ?? policy('IPv4'), plan, verdicts: undefined, drifted, trigger, duration: 0.25 };
}
