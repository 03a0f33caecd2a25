import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { MergedConfig, ParsedConfig } from '../../../lib/config/config.ts';
import { CIDR_KEYS } from '../../../lib/config/keys.ts';
import { mergeConfigs } from '../../../lib/config/merge.ts';
import { compilePolicy, decider } from '../../../lib/policy/policy.ts';
import { formatOrigin } from '../../../lib/text/origin.ts';
import { crowdedAddress } from '../cidr/arbitrary.ts';
import { anyParsedConfig } from './arbitrary.ts';
import { OPTIONS, validate } from './support.ts';

describe('with a config file', () => {
  for (const noMasqAllReservedRanges of [false, true])
    it(`nothing is added to what it says${noMasqAllReservedRanges ? ', not even with all reserved ranges' : ''}`, () => {
      const merged = mergeConfigs([configOf('a', '{}')], { ...OPTIONS, noMasqAllReservedRanges });
      assert.deepEqual([merged.configFileNames, merged.nonMasqueradeCIDRs], [['a'], []]);
    });
});

describe('several config files', () => {
  for (const [texts, masqLinkLocal, decider] of [
    [['{}', '{}'], false, 'built in (default)'],
    [['masqLinkLocal: false', '{}'], false, 'file-0:1:16'],
    [['{}', 'masqLinkLocal: true'], true, 'file-1:1:16'],
    [['masqLinkLocal: false', 'masqLinkLocal: true'], true, 'file-1:1:16'],
    [['masqLinkLocal: true', 'masqLinkLocal: false'], true, 'file-0:1:16'],
    [['masqLinkLocal: true', 'masqLinkLocal: true'], true, 'file-0:1:16'],
  ] as const) {
    it(`make masqLinkLocal ${masqLinkLocal}, of either family alone: ${texts.join(' beside ')}`, () => {
      const forIPv4 = mergeConfigs(texts.map(configNamed), OPTIONS);
      assert.equal(forIPv4.masqLinkLocal.value, masqLinkLocal);
      assert.equal(formatOrigin(forIPv4.masqLinkLocal.origin), decider);
      assert.equal(forIPv4.masqLinkLocalIPv6.value, false);
      const ipv6 = texts.map((text) => text.replace('masqLinkLocal', 'masqLinkLocalIPv6'));
      const forIPv6 = mergeConfigs(ipv6.map(configNamed), OPTIONS);
      assert.equal(forIPv6.masqLinkLocal.value, false);
      assert.equal(forIPv6.masqLinkLocalIPv6.value, masqLinkLocal);
    });
  }

  for (const [texts, interval] of [
    [['{}', '{}'], undefined],
    [['{}', 'resyncInterval: 90s'], 90_000],
    [['resyncInterval: 1m30s', 'resyncInterval: 90s', '{}'], 90_000],
  ] as const) {
    it(`agree on the resync interval: ${texts.join(' beside ')}`, () => {
      assert.equal(mergeConfigs(texts.map(configNamed), OPTIONS).resyncInterval?.value, interval);
    });
  }
});

describe('merging', () => {
  const configFiles = fc.array(anyParsedConfig('IPv4'), { minLength: 1, maxLength: 4 });

  it('lists every prefix once, with the first of its origins', () => {
    fc.assert(
      fc.property(configFiles, (configs) => {
        const merged = mergeConfigs(configs, OPTIONS);
        const configFiles = configs.map(({ configFileName }) => configFileName);
        assert.deepEqual(merged.configFileNames, configFiles);
        for (const key of CIDR_KEYS) {
          const all = configs.flatMap((config) => config[key]);
          assert.deepEqual(
            merged[key],
            firstOfEach(all, ({ value }) => value.text),
          );
        }
        const addresses = configs.flatMap((config) => config.masqueradeAddresses);
        const first = firstOfEach(addresses, ({ value }) => value.destination.text);
        assert.deepEqual(merged.masqueradeAddresses, first);
      }),
    );
  });

  it('gains nothing from a config file that says the same again', () => {
    fc.assert(
      fc.property(configFiles, fc.nat(), (configs, index) => {
        const again = configs[index % configs.length];
        assert.ok(again);
        const once = mergeConfigs(configs, OPTIONS);
        const twice = mergeConfigs([...configs, { ...again, configFileName: 'again' }], OPTIONS);
        const { configFileNames: _, problems: __, ...onceSaid } = once;
        assert.deepEqual(
          { ...onceSaid, configFileNames: twice.configFileNames, problems: twice.problems },
          twice,
        );
      }),
    );
  });

  it('decides about every address alike, in whatever order the config files come, unless they are in conflict', () => {
    const shuffled = configFiles.chain((configs) =>
      fc.tuple(fc.constant(configs), fc.shuffledSubarray(configs, { minLength: configs.length })),
    );
    fc.assert(
      fc.property(shuffled, crowdedAddress('IPv4'), ([configs, others], value) => {
        const [one, other] = [mergeConfigs(configs, OPTIONS), mergeConfigs(others, OPTIONS)];
        assert.equal(isInConflict(one), isInConflict(other));
        if (isInConflict(one)) return;
        assert.equal(one.resyncInterval?.value, other.resyncInterval?.value);
        assert.deepEqual(outcome(one, value), outcome(other, value));
      }),
      { numRuns: 500 },
    );
  });
});

function configOf(name: string, text: string): ParsedConfig {
  const { config, problems } = validate(text, {}, name);
  assert.deepEqual(problems, []);
  return config;
}

function configNamed(text: string, index: number): ParsedConfig {
  return configOf(`file-${index}`, text);
}

/** The items without those of which an earlier one has the same text. */
function firstOfEach<Item>(items: readonly Item[], text: (item: Item) => string): readonly Item[] {
  return items.filter((item) => items.find((other) => text(other) === text(item)) === item);
}

function isInConflict({ problems }: MergedConfig): boolean {
  return problems.some(({ severity }) => severity === 'error');
}

function outcome(config: MergedConfig, value: bigint): readonly (string | undefined)[] {
  const entry = decider(compilePolicy(config, 'IPv4'))({ family: 'IPv4', value });
  return [entry?.verdict ?? 'masqueraded', entry?.as?.range.text];
}
