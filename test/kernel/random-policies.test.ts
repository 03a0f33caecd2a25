import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { openIptables } from '../../lib/dataplane/iptables/iptables.ts';
import { RUNS } from '../lab/runs.ts';
import { policies, ruleOptions } from './arbitrary.ts';
import { forEachLab } from './support.ts';

forEachLab((makeLab, family) => {
  it('reads back whatever it writes as the same rules', async () => {
    await using lab = await makeLab();
    await fc.assert(
      fc.asyncProperty(policies(family), ruleOptions(), async (policy, options) => {
        const dataplane = await openIptables({ mode: lab.mode, ...options }, lab.host);
        const plan = (await dataplane.observe(family)).plan(policy);
        await plan?.apply();
        assert.equal((await dataplane.observe(family)).plan(policy), undefined, plan?.script);
      }),
      { numRuns: 10 * RUNS },
    );
  });
});
