import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { manyFiles } from '../bench/config-files.ts';
import { whyNoMemoryCgroup } from '../lab/cgroups.ts';
import { runAtSize, sizes } from '../lab/sizing.ts';

/** What the manifest is for, and ten times as many. The rest is for `make bench`. */
const TESTED = [1_000, 10_000];

describe('the sizing table', { skip: await whyNoMemoryCgroup() }, () => {
  it('has at least five rows, of which the first has the limit of the manifest', () => {
    const daemonSet = new URL('../../examples/kubernetes/base/daemonset.yaml', import.meta.url);
    const [, limit] = /limits: \{memory: (\d+)Mi\}/.exec(readFileSync(daemonSet, 'utf8')) ?? [];
    const [{ cidrs, limitMiB } = assert.fail(), ...more] = sizes();
    assert.deepEqual([cidrs, limitMiB], [1_000, Number(limit)]);
    assert.ok(more.length >= 4);
  });

  for (const size of sizes().filter(({ cidrs }) => TESTED.includes(cidrs)))
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
