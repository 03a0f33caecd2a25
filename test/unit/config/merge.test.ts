import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { MergedConfig } from '../../../lib/config/config.ts';
import { CIDR_KEYS } from '../../../lib/config/keys.ts';
import { mergeConfigs } from '../../../lib/config/merge.ts';
import { compilePolicy, decider } from '../../../lib/policy/policy.ts';
import { crowdedAddress } from '../cidr/arbitrary.ts';
import { anyParsedConfig } from './arbitrary.ts';
import { OPTIONS } from './support.ts';

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
      { numRuns: 200 },
    );
  });
});

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
