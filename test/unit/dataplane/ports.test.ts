import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { parsePortRanges, spreadEvenly } from '../../../lib/dataplane/ports.ts';

describe('port ranges', () => {
  for (const text of [
    ...['', ',', '1,', '0', '0-1', '65536', '2-1', '1-2-3', '1 ,2', '+1', '1,1', '1-5,5', '５'],
  ]) {
    it(`are not ${JSON.stringify(text)}`, () => assert.equal(parsePortRanges(text), undefined));
  }

  it('may be single ports and touch each other', () => {
    assert.deepEqual(parsePortRanges('1,2-3,65535'), [
      { first: 1, last: 1 },
      { first: 2, last: 3 },
      { first: 65_535, last: 65_535 },
    ]);
  });

  it('are spread so that every port is as likely as any other', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 5_000 }), { minLength: 1, maxLength: 10 }), (sizes) => {
        let next = 1;
        const ranges = sizes.map((size) => {
          const first = next;
          next += size;
          return { first, last: next - 1 };
        });
        const total = sizes.reduce((sum, size) => sum + size, 0);
        let reached = 1; // the share of connections that come as far as this range
        for (const { range, size, left } of spreadEvenly(ranges)) {
          const share = size / left;
          const perPort = (reached * share) / (range.last - range.first + 1);
          assert.ok(Math.abs(perPort * total - 1) < 1e-6);
          reached *= 1 - share;
        }
        assert.ok(Math.abs(reached) < 1e-9);
      }),
    );
  });
});
