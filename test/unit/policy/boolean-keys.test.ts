import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { explainedJson } from '../../../cmd/ip-masq-agent/explain-json.ts';
import { flatConfig } from '../../../cmd/ip-masq-agent/render/flat-config.ts';
import { FAMILIES } from '../../../lib/cidr/address.ts';
import { prefixAt } from '../../../lib/cidr/prefix.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import { KEYS } from '../../../lib/config/keys.ts';
import { decide } from '../../../lib/policy/decision.ts';
import { compilePolicy } from '../../../lib/policy/policy.ts';
import { kindsOf, merge, mergedOf } from '../config/support.ts';

for (const { name } of KEYS.filter(({ kind }) => kind === 'flag')) {
  const on = mergedOf({ a: `${name}: true` });
  const left = new Set(entriesOf(on).map(({ text }) => text));
  const [range, ...others] = entriesOf(mergedOf({ a: '{}' })).filter(({ text }) => !left.has(text));

  describe(`what ${name} does to its range`, () => {
    assert.ok(range && others.length === 0, 'the key has one row in LEFT_ALONE');
    const { family, address, length, text } = range;
    const destination = { family, value: address };
    const half = prefixAt(family, address, length + 1).text;

    it('is told as the reason why packets are masqueraded', () => {
      const decision = decide(on, destination);
      const told = { address: destination, decision, isKept: true, live: undefined };
      assert.equal(explainedJson(told).flag?.value, true);
    });

    for (const [what, config, kind] of [
      ['an exception that has no effect', `masqueradeCIDRs: ["${text}"]`, /-entry$/],
      ['an entry that wins', `${name}: true\nnonMasqueradeCIDRs: ["${text}"]`, /-entry$/],
      ['an entry that changes nothing', `nonMasqueradeCIDRs: ["${half}"]`, /^covered$/],
    ] as const)
      it(`is a problem of ${what}`, () => {
        const [found, ...more] = kindsOf(merge({ a: config }).problems);
        assert.match(found ?? '', kind);
        assert.deepEqual(more, []);
      });

    it('stays so for an exception when the config is flattened', () => {
      const config = flatConfig(mergedOf({ a: `masqueradeCIDRs: ["${half}"]` }), FAMILIES);
      assert.equal(decide(config, destination).verdict, 'masqueraded');
    });
  });
}

function entriesOf(config: MergedConfig) {
  return FAMILIES.flatMap((family) => compilePolicy(config, family).entries.map(({ prefix }) => prefix));
}
