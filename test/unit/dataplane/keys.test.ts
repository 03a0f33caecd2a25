import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { KEYS } from '../../../lib/config/keys.ts';
import { renderChains } from '../../../lib/dataplane/iptables/plan.ts';
import { renderTables } from '../../../lib/dataplane/nftables/table.ts';
import { compilePolicy, type Policy } from '../../../lib/policy/policy.ts';
import { seededRandom } from '../../packets/random.ts';
import { randomConfig } from '../../packets/random-config.ts';
import { FAMILIES } from '../cidr/arbitrary.ts';
import { addressFrom } from '../cidr/support.ts';
import { mergedOf } from '../config/support.ts';

/** Keys that change no rule, and why. */
const NO_RULES: Readonly<Record<string, string>> = {
  resyncInterval: 'says when the agent looks, not what it writes',
};

const OPTIONS = { chain: 'OURS', randomFully: true, toPorts: [] };
const RENDERERS = {
  iptables: (policies: readonly Policy[]) => renderChains(policies, OPTIONS),
  nftables: (policies: readonly Policy[]) => renderTables(policies, OPTIONS),
};
const OWN = ['192.0.2.1', '10.244.1.1', '2001:db8::1', 'fd00:244:1::1'].map(addressFrom);
const CONFIGS = 200;

const random = seededRandom(1);
const configs = Array.from({ length: CONFIGS }, () => randomConfig(random).config);
const unset = mergedOf({ 'ip-masq-a': '{}' });

for (const [dataplane, render] of Object.entries(RENDERERS))
  describe(`the rules of ${dataplane} are others without a key of a config file:`, () => {
    const rules = (config: typeof unset) =>
      render(FAMILIES.map((family) => compilePolicy(config, family, OWN)));
    for (const { name, setAt } of KEYS)
      it(`${name}${name in NO_RULES ? `, which ${NO_RULES[name]}` : ''}`, () => {
        const changed = configs.some(
          (config) =>
            setAt(config) !== undefined && rules(config) !== rules({ ...config, [name]: unset[name] }),
        );
        assert.equal(changed, !(name in NO_RULES));
      });
  });
