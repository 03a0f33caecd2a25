import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { reach } from '../../../lib/neighbours/reach.ts';
import { baseChainOf } from './support.ts';

describe('reach', () => {
  for (const source of ['', '-s 10.0.0.0/8 ']) {
    it(`takes no time to speak of for thousands of CIDRs that an agent leaves alone: ${source}`, () => {
      const leftAlone = (i: number) => `-A A ${source}-d 10.${i >> 8}.${i & 255}.0/24 -j RETURN`;
      const lines = Array.from({ length: 10_000 }, (_, i) => leftAlone(i));
      const base = baseChainOf(['-A POSTROUTING -j A', ...lines, `-A A ${source}-j MASQUERADE`]);
      const start = performance.now();
      const [reached] = reach(base);
      assert.equal(reached?.destinations.ranges.length, 2);
      assert.ok(performance.now() - start < 2_000);
    });
  }

  it('takes no time to speak of for thousands of rules with conditions of their own', () => {
    const lines = Array.from(
      { length: 5_000 },
      (_, i) => `-A POSTROUTING -s 10.0.${i >> 8}.${i & 255} -j ACCEPT`,
    );
    const start = performance.now();
    assert.equal(reach(baseChainOf([...lines, '-A POSTROUTING -j MASQUERADE'])).length, 5_001);
    assert.ok(performance.now() - start < 2_000);
  });

  it('takes no time to speak of for a chain per pod, or many ways through', () => {
    const lines = Array.from({ length: 200 }, (_, i) => [
      `-A POSTROUTING -s 10.0.0.${i} -j C${i}`,
      `-A C${i} -d 10.0.0.0/24 -j ACCEPT`,
      `-A C${i} -m mark --mark ${i}/0xff -j RETURN`,
      `-A C${i} ! -d 224.0.0.0/4 -j MASQUERADE`,
    ]).flat();
    const start = performance.now();
    assert.equal(reach(baseChainOf(lines)).length, 400);
    assert.ok(performance.now() - start < 2_000);
  });
});
