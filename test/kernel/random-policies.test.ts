import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { openIptables } from '../../lib/dataplane/iptables/iptables.ts';
import { WITH_NETLINK } from '../lab/netlink.ts';
import { RUNS } from '../lab/runs.ts';
import { policies, ruleOptions } from './arbitrary.ts';
import { createLab, FAMILY_KINDS } from './support.ts';

/** What is read by tools. Over netlink, random-iptables.test.ts reads nft mode back. */
const MODE = WITH_NETLINK ? 'legacy' : 'nft';

describe(`iptables in ${MODE} mode, read by tools,`, () => {
  for (const { family, kind } of FAMILY_KINDS)
    it(`reads back whatever it writes as the same rules, ${kind}, ${family}`, async () => {
      await using lab = await createLab(kind, MODE, family);
      await fc.assert(
        fc.asyncProperty(policies(family), ruleOptions(), async (policy, options) => {
          const dataplane = await openIptables({ mode: MODE, ...options }, lab.host);
          const plan = (await dataplane.observe(family)).plan(policy);
          await plan?.apply();
          assert.equal((await dataplane.observe(family)).plan(policy), undefined, plan?.script);
        }),
        { numRuns: 10 * RUNS },
      );
    });
});
