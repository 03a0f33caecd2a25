import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { ADDRESS_BITS } from '../../lib/cidr/address.ts';
import { rangeOf } from '../../lib/cidr/ranges.ts';
import { verdictAt } from '../../lib/dataplane/kernel-verdicts.ts';
import { openNftables } from '../../lib/dataplane/nftables/nftables.ts';
import { renderTables } from '../../lib/dataplane/nftables/table.ts';
import { decider, fromSet, type Policy } from '../../lib/policy/policy.ts';
import { createBox } from '../lab/box.ts';
import { hostNetlink, WITH_NETLINK } from '../lab/netlink.ts';
import { RUNS } from '../lab/runs.ts';
import { policies, ruleOptions } from './arbitrary.ts';
import { boxHost, FAMILY_KINDS } from './support.ts';

for (const { family, kind } of WITH_NETLINK ? FAMILY_KINDS : []) {
  describe(`nftables, ${kind}, ${family}`, () => {
    it('reads back whatever it or nft writes, after whatever was there before, and decides as the policy does', async () => {
      await using box = await createBox(kind);
      await using net = await hostNetlink(box);
      const { host } = boxHost(box, net.netlink);
      await fc.assert(
        fc.asyncProperty(policies(family), ruleOptions(), async (policy, options) => {
          const dataplane = openNftables(options, host);
          const plan = (await dataplane.observe(family)).plan(policy);
          await plan?.apply();
          assert.equal((await dataplane.observe(family)).plan(policy), undefined, plan?.script);
          const after = await dataplane.observe(family);
          // The same as nft makes of what `render` prints.
          const { code, stderr } = await box.run('nft', ['-f', '-'], {
            input: renderTables([policy], options),
          });
          assert.equal(code, 0, stderr);
          const loaded = (await dataplane.observe(family)).plan(policy);
          assert.equal(loaded, undefined, loaded?.script);
          const decide = decider(policy);
          const verdicts = after.verdicts();
          assert.deepEqual(verdicts.from, fromSet(policy));
          for (const value of edgesOf(policy)) {
            const address = { family, value };
            const expected = decide(address)?.verdict ?? 'masqueraded';
            const { state, verdict } = verdictAt(verdicts, address);
            assert.deepEqual({ state, verdict }, { state: 'applied', verdict: expected });
          }
        }),
        { numRuns: 20 * RUNS },
      );
    });
  });
}

/** The addresses on both sides of both ends of every entry. */
function edgesOf({ family, entries }: Policy): readonly bigint[] {
  const highest = 2n ** BigInt(ADDRESS_BITS[family]) - 1n;
  return entries
    .flatMap(({ prefix }) => {
      const { first, last } = rangeOf(prefix);
      return [first - 1n, first, last, last + 1n];
    })
    .filter((value) => value >= 0n && value <= highest);
}
