import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { flatConfig } from '../../../cmd/ip-masq-agent/render/flat-config.ts';
import { FAMILIES, type Family } from '../../../lib/cidr/address.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import { KEYS, type MergedKeys } from '../../../lib/config/keys.ts';
import { compilePolicy, decider } from '../../../lib/policy/policy.ts';
import { configFileText } from '../../../lib/report/config-file-text.ts';
import { BITS, prefixOf } from '../cidr/arbitrary.ts';
import { anyConfigFiles, assertDecideAlike, edges } from '../config/any-config-files.ts';
import { merge, mergedOf } from '../config/support.ts';

/** The keys that say together what is masqueraded, in another way after it. */
const FLATTENED_KEYS: readonly (keyof MergedKeys)[] = [
  'nonMasqueradeCIDRs',
  'masqueradeCIDRs',
  'masqLinkLocal',
  'masqLinkLocalIPv6',
];

describe('the text of a config file without exceptions', () => {
  it('read by the agent as the only config file decides as all config files do, without a warning', () => {
    fc.assert(
      fc.property(anyConfigFiles(), ({ texts, families }) => {
        const [config, text] = [mergedOf(texts, { families }), flat(texts, families)];
        const back = merge({ 'ip-masq-agent': text }, { families, strict: true });
        assert.ok(back.config, back.lines.join('\n'));
        assertDecideAlike(config, back.config, families);
        assert.deepEqual(back.config.masqueradeCIDRs, []);
        for (const { name, plainValue: plain } of KEYS)
          if (!FLATTENED_KEYS.includes(name)) assert.deepEqual(plain(back.config), plain(config), name);
      }),
    );
  });

  it('has the shortest list that does so', () => {
    fc.assert(
      fc.property(anyConfigFiles(), ({ texts }) => {
        const config = mergedOf(texts);
        const { nonMasqueradeCIDRs, masqLinkLocal, masqLinkLocalIPv6 } = flatConfig(config, FAMILIES);
        const expected =
          shortest(config, 'IPv4', masqLinkLocal.value) + shortest(config, 'IPv6', masqLinkLocalIPv6.value);
        assert.equal(nonMasqueradeCIDRs.length, expected);
      }),
    );
  });
});

type Need = 'must' | 'may' | 'must not';

/**
 * The fewest prefixes of a list that decides as the config, for a reader that adds link-local where it is not
 * masqueraded: found by cutting in halves each block that holds both what must and what must not be listed.
 */
function shortest(config: MergedConfig, family: Family, masqLinkLocal: boolean): number {
  const policy = compilePolicy(config, family);
  const decide = decider(policy);
  const linkLocal = LINK_LOCAL[family];
  const needs = edges(family, [linkLocal, ...policy.entries.map(({ prefix }) => prefix)]).map((first) => {
    const free = !masqLinkLocal && prefixOf(family, first, linkLocal.length).address === linkLocal.address;
    const need: Need = decide({ family, value: first })?.verdict === 'not_masqueraded' ? 'must' : 'must not';
    return { first, need: free ? 'may' : need };
  });
  const cost = (first: bigint, size: bigint): number => {
    const start = needs.findLastIndex((stretch) => stretch.first <= first);
    const inside = needs.slice(start).filter((stretch) => stretch.first < first + size);
    const has = (need: Need) => inside.some((stretch) => stretch.need === need);
    if (!has('must')) return 0;
    return has('must not') ? cost(first, size / 2n) + cost(first + size / 2n, size / 2n) : 1;
  };
  return cost(0n, 2n ** BigInt(BITS[family]));
}

const LINK_LOCAL = {
  IPv4: prefixOf('IPv4', 0xa9fe_0000n, 16),
  IPv6: prefixOf('IPv6', 0xfe80n << 112n, 10),
} as const;

function flat(texts: Readonly<Record<string, string>>, families = FAMILIES): string {
  return configFileText(flatConfig(mergedOf(texts, { families }), families), families);
}
