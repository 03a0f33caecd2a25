import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { KEY_NAMES } from '../../../lib/config/keys.ts';
import { nearest } from '../../../lib/text/nearest.ts';

describe('the nearest known key', () => {
  const words: Readonly<Record<string, readonly string[]>> = {
    nonMasqueradeCIDRs: [
      ...['nonMasqueradeCIDR', 'nonMasqueradeCidrs', 'noMasqueradeCIDRs', 'non_masquerade_cidrs'],
    ],
    // forceMasqueradeCIDRs is not near the opposite.
    masqueradeCIDRs: ['masqueradeCIDR', 'masqueradCIDRs', 'forceMasqueradeCIDRs'],
    masqLinkLocal: ['masqLinkLokal', 'maskLinkLocal'],
    masqLinkLocalIPv6: ['masqLinkLocalIPv4', 'masqLinkLocalIP6'],
    resyncInterval: ['resyncInterva', 'resyncIntervall'],
    cidrLimit: ['cidrLimits', 'cidr_limit'],
    none: [
      ...['resync', 'foo', '', 'constructor', 'x'.repeat(100_000)],
      ...['nonMasqueradeFromCIDRs', 'NonMasqueradeSrcCIDRs', 'nonMasqLinkLocal', 'noMasqLinkLocal'],
    ],
  };
  for (const [expected, near] of Object.entries(words))
    for (const word of near)
      it(`to ${word.slice(0, 20) || 'an empty one'} is ${expected}`, () =>
        assert.equal(nearest(word, KEY_NAMES) ?? 'none', expected));

  it('of a flag is none that only ends alike', () =>
    assert.equal(nearest('chain-name', ['stdin-name', 'masq-chain']), undefined));

  it('is the first of several that are equally near', () => {
    assert.equal(nearest('cat', ['car', 'cap']), 'car');
    assert.equal(nearest('cat', []), undefined);
  });
});
