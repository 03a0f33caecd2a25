import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FLAGS } from '../../../cmd/ip-masq-agent/flags.ts';
import { KEY_NAMES } from '../../../lib/config/keys.ts';
import { nearest } from '../../../lib/text/nearest.ts';

describe('the nearest known key', () => {
  const words: Readonly<Record<string, readonly string[]>> = {
    nonMasqueradeCIDRs: [
      ...['nonMasqueradeCIDR', 'nonMasqueradeCidrs', 'noMasqueradeCIDRs', 'non_masquerade_cidrs'],
      ...['unmasqueradeCIDRs', 'omitMasqueradeCIDRs'],
    ],
    // forceMasqueradeCIDRs is not near the opposite.
    masqueradeCIDRs: ['masqueradeCIDR', 'masqueradCIDRs', 'forceMasqueradeCIDRs'],
    masqueradeFromCIDRs: ['masqueradeSourceCIDRs', 'masqueradePodCIDRs'],
    nonMasqueradeFromCIDRs: [
      // As the agent of Tencent's TKE has it.
      ...['NonMasqueradeSrcCIDRs', 'nonMasqueradePodCIDRs', 'noMasqueradeFromCIDRs'],
    ],
    masqLinkLocal: ['masqLinkLokal', 'maskLinkLocal', 'masqLinkLocalIPv4'],
    masqLinkLocalIPv6: ['masqLinkLocalIP6'],
    resyncInterval: ['resyncInterva', 'resyncIntervall'],
    cidrLimit: ['cidrLimits', 'cidr_limit'],
    none: [
      ...['resync', 'foo', '', 'constructor', 'x'.repeat(100_000)],
      ...['nonMasqLinkLocal', 'noMasqLinkLocal', 'masqueradeNotCIDRs'],
    ],
  };
  for (const [expected, near] of Object.entries(words))
    for (const word of near)
      it(`to ${word.slice(0, 20) || 'an empty one'} is ${expected}`, () =>
        assert.equal(nearest(word, KEY_NAMES) ?? 'none', expected));

  const flags: Readonly<Record<string, readonly string[]>> = {
    'must-not-masquerade': ['mustn-masquerade', 'must-never-masquerade'],
    none: ['foo', 'chain-name', 'accept-unmasqueraded', 'accept-not-masqueraded', 'masq-all-reserved-ranges'],
  };
  for (const [expected, near] of Object.entries(flags))
    for (const word of near)
      it(`of flags to ${word} is ${expected}`, () =>
        assert.equal(nearest(word, [...Object.keys(FLAGS)]) ?? 'none', expected));

  it('is the first of several that are equally near', () => {
    assert.equal(nearest('cat', ['car', 'cap']), 'car');
    assert.equal(nearest('cat', []), undefined);
  });
});
