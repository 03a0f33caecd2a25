import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { KEY_NAMES } from '../../../lib/config/keys.ts';
import { nearest } from '../../../lib/text/nearest.ts';

describe('the nearest known key', () => {
  for (const [word, expected] of [
    ['nonMasqueradeCIDR', 'nonMasqueradeCIDRs'],
    ['nonMasqueradeCidrs', 'nonMasqueradeCIDRs'],
    ['noMasqueradeCIDRs', 'nonMasqueradeCIDRs'],
    ['non_masquerade_cidrs', 'nonMasqueradeCIDRs'],
    ['masqueradeCIDR', 'masqueradeCIDRs'],
    ['masqueradCIDRs', 'masqueradeCIDRs'],
    ['masqLinkLokal', 'masqLinkLocal'],
    ['maskLinkLocal', 'masqLinkLocal'],
    ['masqLinkLocalIPv4', 'masqLinkLocalIPv6'],
    ['masqLinkLocalIP6', 'masqLinkLocalIPv6'],
    ['resyncInterva', 'resyncInterval'],
    ['resyncIntervall', 'resyncInterval'],
    ['resync', undefined],
    ['cidrLimits', 'cidrLimit'],
    ['cidr_limit', 'cidrLimit'],
    ['foo', undefined],
    ['', undefined],
    ['constructor', undefined],
    ['x'.repeat(100_000), undefined],
  ] as const) {
    it(`to ${word.slice(0, 20) || 'an empty one'} is ${expected ?? 'none'}`, () => {
      assert.equal(nearest(word, KEY_NAMES), expected);
    });
  }

  it('is the first of several that are equally near', () => {
    assert.equal(nearest('cat', ['car', 'cap']), 'car');
    assert.equal(nearest('cat', []), undefined);
  });
});
