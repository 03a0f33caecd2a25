import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { manyFiles } from '../bench/config-files.ts';
import { whyNoMemoryCgroup } from '../lab/cgroups.ts';
import { runAtSize, sizes } from '../lab/sizing.ts';

/** The rest is for `make bench`. */
const MOST_CIDRS = 10_000;

describe('the sizing table', { skip: await whyNoMemoryCgroup() }, () => {
  it('has rows', () => assert.ok(sizes().length >= 5));

  for (const size of sizes().filter(({ cidrs }) => cidrs <= MOST_CIDRS))
    for (const backend of size.backends)
      it(`suffices for ${size.cidrs} CIDRs, ${backend}, with each command in the pod`, async (t) => {
        let peak = 0;
        for await (const { what, kills, ...charged } of runAtSize(size, backend, manyFiles)) {
          assert.equal(kills, 0, `the kernel has killed a process: ${what}`);
          ({ peak } = charged);
        }
        t.diagnostic(`${Math.round(peak / 2 ** 20)} of ${size.limitMiB} MiB`);
      });
});
