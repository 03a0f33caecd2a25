import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { foundOutOfSync } from '../../../lib/agent/out-of-sync.ts';
import type { State } from '../../../lib/agent/state.ts';
import { InvalidConfigError } from '../../../lib/config/invalid-config.ts';
import type { Dataplane } from '../../../lib/dataplane/dataplane.ts';
import { compilePolicy, type Family } from '../../../lib/policy/policy.ts';
import { METRICS } from '../../../lib/status/metrics.ts';
import { Metrics } from '../../../lib/status/registry.ts';
import { loadedOf, merge, mergedOf } from '../config/support.ts';
import { ABOUT, factsOf, familyOf, readerOf, stateOf, synced } from './support.ts';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));

const TEXTS = {
  a: 'nonMasqueradeCIDRs: [10.0.0.0/8, 10.0.0.0/8, fd00::/8]\nmasqueradeCIDRs: [10.1.0.0/16]\n',
  b: 'masqLinkLocal: true\n',
};

function read(texts: Readonly<Record<string, string>>): Partial<State> {
  const { config, problems } = merge(texts);
  assert.ok(config);
  const valid = loadedOf(config, problems);
  return { reading: valid, valid, inUse: valid };
}

function refused(text: string): State['invalid'] {
  const { problems } = merge({ a: text });
  return { error: new InvalidConfigError(problems, [{ name: 'a', text }]), since: 0 };
}

describe('the gauges', () => {
  it('describe the last valid config, also if it is not valid now', async () => {
    const valid = read({ ...TEXTS, c: 'masqLinkLocal: false\n' });
    const good = factsOf(stateOf(valid));
    assert.equal(await good.value('config_files'), 3);
    assert.equal(await good.value('config_valid'), 1);
    assert.equal(await good.value('config_problems', 'severity="warning"', 'kind="link-local-flag"'), 1);
    assert.equal(await good.value('config_problems', 'severity="info"', 'kind="duplicate"'), 1);
    assert.equal((await good.series('config_file_info')).length, 3);
    const [info] = await good.series('config_info');
    const bad = factsOf(stateOf({ ...valid, vanished: new Map([['b', 0]]), invalid: refused('x: 1\n') }));
    assert.deepEqual(await bad.series('config_info'), [info]);
    assert.equal(await bad.value('config_valid'), 0);
    assert.equal(await bad.value('vanished_config_files'), 1);
    assert.equal((await bad.series('config_file_info')).length, 2);
    const other = factsOf(stateOf(read({ b: 'nonMasqueradeCIDRs: [10.0.0.0/8]\n' })));
    const conflicts = await other.series('config_problems');
    assert.ok(conflicts.length > 1 && conflicts.every((line) => line.endsWith(' 0')), conflicts.join());
    assert.notDeepEqual(await other.series('config_info'), [info]);
  });

  it('count the errors of a refused config by kind', async () => {
    const first = factsOf(
      stateOf({ invalid: refused('nonMasqueradeCIDRs: [10.0.0.1/8, 10.0.0.2/8]\nx: 1\n') }),
    );
    assert.equal(await first.value('config_errors', 'kind="cidr"'), 2);
    assert.equal(await first.value('config_errors', 'kind="unknown-key"'), 1);
    const second = factsOf(stateOf({ invalid: refused('y: 1\n') }));
    assert.equal((await second.series('config_errors')).length, 1);
    const valid = factsOf(stateOf(read(TEXTS)));
    assert.deepEqual(await valid.series('config_errors'), []);
  });

  it('say what the kernel holds: entries by verdict, what they make there, and when it was synced', async () => {
    const state = synced(mergedOf(TEXTS), { lastSync: 2_000, lastChange: 1_000 });
    const { value } = factsOf(state);
    assert.equal(await value('config_entries', 'family="IPv4"', 'verdict="not_masqueraded"'), 1);
    assert.equal(await value('config_entries', 'family="IPv4"', 'verdict="masqueraded"'), 1);
    assert.equal(await value('rules', 'family="IPv4"'), 102);
    assert.equal(await value('last_sync_success_timestamp_seconds', 'family="IPv4"'), 2);
    assert.equal(await value('last_change_timestamp_seconds', 'family="IPv4"'), 1);
    assert.equal(await value('rules_out_of_sync'), 0);
    const away = factsOf({
      ...state,
      outOfSync: foundOutOfSync(state.outOfSync, 'x', performance.now() - 6_000),
    });
    assert.equal(await away.value('rules_out_of_sync'), 1);
  });

  it('have no value for what the state does not say, and forget what it no longer says', async () => {
    const metrics = new Metrics();
    const { series } = readerOf(metrics);
    const flows = { at: 0, counts: [], portUsage: new Map([['IPv4', 0.5]] as const) };
    const podRoutes = new Map<Family, number>([['IPv4', 1]]);
    const { families } = synced(mergedOf(TEXTS));
    const told = { families, keptFiles: [], netlink: 'works', flows, podRoutes } as const;
    const names = ['last_valid_config_kept', 'netlink_active', 'port_usage_ratio', 'masqueraded_pod_routes'];
    for (const [known, count] of [
      [told, 1],
      [{}, 0],
      [told, 1],
    ] as const) {
      metrics.setGauges(stateOf(known), ABOUT);
      for (const name of names) assert.equal((await series(name)).length, count, name);
    }
    const legacy = { iptables: { mode: 'legacy', suffix: '' } } as Partial<Dataplane> as Dataplane;
    metrics.setGauges(stateOf({ ...told, dataplane: legacy }), ABOUT);
    assert.deepEqual(await series('netlink_active'), []);
  });

  it('say whether the state directory holds the config in use, and not one of before; nothing before one was written', async () => {
    const { valid: inUse, families } = synced(mergedOf(TEXTS));
    const kept = (keptFiles: State['keptFiles'], known: Partial<State> = { families }) =>
      factsOf(stateOf({ inUse, keptFiles, ...known })).value('last_valid_config_kept');
    assert.equal(await kept(inUse?.configFiles), 1);
    assert.equal(await kept([]), 0);
    assert.equal(await kept(read(TEXTS).valid?.configFiles), 0);
    // As long as the config is invalid, another program blocks the rules, or they are those of an earlier run.
    assert.equal(await kept([], {}), undefined);
  });

  it('count ranges by how many addresses of the node they hold, as long as a config lists any', async () => {
    const own = [0x09000001n, 0x09000002n, 0x0a000001n, 0x0a000002n].map(
      (value, index) => ({ family: 'IPv4', value, rank: index === 3 ? 1 : 0 }) as const,
    );
    const items = ['9.0.0.0/8', '10.0.0.0/8', '11.0.0.0/8', '12.0.0.0/8'].map((address, index) => ({
      destination: `203.0.${index}.0/24`,
      address,
    }));
    const config = mergedOf({ b: JSON.stringify({ masqueradeAddresses: items }) });
    const families = (['IPv4', 'IPv6'] as const).map(
      (family) => [family, familyOf(compilePolicy(config, family, own))] as const,
    );
    const { value, series } = factsOf(stateOf({ families: new Map(families) }));
    for (const [found, count] of [
      ['none', 2],
      ['one', 1],
      ['several', 1],
    ] as const)
      assert.equal(await value('masquerade_address_ranges', 'family="IPv4"', `found="${found}"`), count);
    assert.equal((await series('masquerade_address_ranges')).length, 3);
    assert.deepEqual(await factsOf(synced(mergedOf(TEXTS))).series('masquerade_address_ranges'), []);
  });
});

describe('the metrics of the table', () => {
  it('that count are all counted somewhere', () => {
    const code = globSync(`${ROOT}lib/status/*.ts`).map((file) => readFileSync(file, 'utf8'));
    const counted = new Set(
      [...code.join('').matchAll(/\.(?:add|observe)\('(\w+)',/g)].map(([, name]) => name),
    );
    const uncounted = Object.entries(METRICS).filter(
      ([name, { type }]) => type !== 'gauge' && !counted.has(name),
    );
    assert.deepEqual(uncounted, []);
  });
});
