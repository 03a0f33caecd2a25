import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Plan } from '../../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import { Remakes } from '../../../lib/dataplane/remakes.ts';

const RACED = { failure: 'raced' };

function planOf(remakes: boolean): Plan {
  return { family: 'IPv4', remakes } as unknown as Plan;
}

const nothing = async () => {};
const noRules = async () => [];

describe('counts of rules', () => {
  it('tell how often all rules of the family were made anew', async () => {
    const remakes = new Remakes();
    const remade = async (family: Plan['family']) => (await remakes.count(family, noRules)).remade;
    const first = await remade('IPv4');
    await remakes.apply(planOf(false), nothing);
    assert.equal(await remade('IPv4'), first);
    const fail = async () => {
      throw new DataplaneError('busy', 'locked', 'wait');
    };
    await assert.rejects(remakes.apply(planOf(true), fail), { failure: 'busy' });
    assert.equal(await remade('IPv4'), first);
    const other = await remade('IPv6');
    await remakes.apply(planOf(true), nothing);
    assert.notEqual(await remade('IPv4'), first);
    assert.equal(await remade('IPv6'), other);
  });

  for (const [when, begin] of [
    ['before a plan is carried out, and ended in the middle of it', 'reading'],
    ['in the middle of a plan, and ended behind it', 'plan'],
  ] as const) {
    it(`are not known where the reading began ${when}`, async () => {
      const remakes = new Remakes();
      const [reading, writing] = [Promise.withResolvers<readonly []>(), Promise.withResolvers<void>()];
      const apply = () => remakes.apply(planOf(true), () => writing.promise);
      const count = () => remakes.count('IPv4', () => reading.promise);
      const applied = begin === 'plan' ? apply() : undefined;
      const counted = assert.rejects(count(), RACED);
      const both = applied ?? apply();
      if (begin === 'plan') writing.resolve();
      else reading.resolve([]);
      await (begin === 'plan' ? both : counted);
      writing.resolve();
      reading.resolve([]);
      await Promise.all([both, counted]);
      assert.deepEqual((await remakes.count('IPv4', noRules)).rules, []);
    });
  }

  it('are not known where a whole plan was carried out while they were read', async () => {
    const remakes = new Remakes();
    const read = async () => {
      await remakes.apply(planOf(true), nothing);
      return [];
    };
    await assert.rejects(remakes.count('IPv4', read), RACED);
  });
});
