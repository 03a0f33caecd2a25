import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MOST_FLOWS, readFlows } from '../../../lib/flows/read.ts';
import { flowOf, sourceOf } from './support.ts';

const FLOW = flowOf({ from: '10.0.0.1:1', to: '10.0.0.2:2' });

describe('flows', () => {
  it('are read part by part', async () => {
    const seen: string[] = [];
    const source = sourceOf([[FLOW, FLOW], [FLOW]]);
    const take = () => seen.push('flow');
    assert.equal(await readFlows(source, undefined, take, () => seen.push('end')), true);
    assert.deepEqual(seen, ['flow', 'flow', 'end', 'flow', 'end']);
  });

  it('are taken no further if there come to be too many', async () => {
    const part = Array.from({ length: MOST_FLOWS / 2 }, () => FLOW);
    let taken = 0;
    const source = sourceOf([part, part, [FLOW], part], 1);
    const take = () => {
      taken += 1;
    };
    assert.equal(await readFlows(source, undefined, take), false);
    assert.equal(taken, MOST_FLOWS);
  });
});
