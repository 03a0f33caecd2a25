import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { openIptables } from '../../lib/dataplane/iptables/iptables.ts';
import { renderChains } from '../../lib/dataplane/iptables/plan.ts';
import { carryOut, edits, type Way } from '../lab/edits.ts';
import { empty, kernelState } from '../lab/kernel-state.ts';
import { succeed } from '../lab/run.ts';
import { RUNS } from '../lab/runs.ts';
import { policies, ruleOptions } from './arbitrary.ts';
import { createLab, FAMILY_KINDS, type Family, IP, sync } from './support.ts';

for (const mode of ['nft', 'legacy'] as const)
  for (const { family, kind } of FAMILY_KINDS)
    it(`iptables in ${mode} mode has what render prints, whatever other programs have made of it, and reads it back, ${kind}, ${family}`, async () => {
      const way: Way = `iptables-${mode}`;
      await using lab = await createLab(kind, mode, family);
      await using rendered = await createLab(kind, mode, family);
      await fc.assert(
        fc.asyncProperty(
          fc.array(foreignEdits(way, family), { maxLength: 5 }),
          policies(family),
          ruleOptions(),
          async (foreign, policy, options) => {
            for (const edit of foreign) await carryOut(lab.box, way, edit);
            const dataplane = await openIptables({ mode, ...options }, lab.host);
            await sync(dataplane, policy);
            const again = (await dataplane.observe(family)).plan(policy);
            assert.equal(again, undefined);
            await empty(rendered.box);
            const tool = `${IP[family]}tables-${mode}-restore`;
            await succeed(rendered.box.run(tool, ['--noflush'], { input: renderChains([policy], options) }));
            const states = await Promise.all([lab, rendered].map(({ box }) => kernelState(box, way)));
            assert.equal(states[0], states[1]);
          },
        ),
        { numRuns: 10 * RUNS },
      );
    });

/** What a tool does to the agent's chains, or to those that lead there. */
function foreignEdits(way: Way, family: Family) {
  return edits(way).filter(
    (edit) =>
      edit.protocol === IP[family] &&
      'iptables' in edit &&
      // An empty chain can be entered from there; the kernel then refuses MASQUERADE in it.
      !/^(?:PREROUTING|OUTPUT)$/.test(edit.iptables[1] ?? ''),
  );
}
