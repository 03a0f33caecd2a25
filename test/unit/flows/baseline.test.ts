import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Baseline } from '../../../lib/flows/baseline.ts';

/** Reads flows with these ids; how many began since the last change, or undefined if the reading says nothing. */
function read(baseline: Baseline, ids: readonly number[], meanwhile = () => {}): number | undefined {
  const reading = baseline.begin();
  const since = ids.filter((id) => reading.beginning(id) === 'after').length;
  meanwhile();
  return reading.isOverIn() ? since : undefined;
}

describe('the baseline', () => {
  it('is the first reading after a change; what is not in it began since', () => {
    const baseline = new Baseline();
    assert.equal(read(baseline, [5, 4_294_967_295, 1]), 0);
    assert.equal(read(baseline, [1, 2, 5, 4_294_967_295]), 1);
    baseline.onChange();
    assert.equal(read(baseline, [1, 2, 3]), 0);
    assert.equal(read(baseline, [1, 2, 3, 4]), 1);
  });

  it('loses the ids that a later reading lacks', () => {
    const baseline = new Baseline();
    assert.equal(read(baseline, [1, 2]), 0);
    assert.equal(read(baseline, [2]), 0);
    assert.equal(read(baseline, [1, 2]), 1);
  });

  it('is no reading during which something has changed, nor one that has failed', () => {
    const baseline = new Baseline();
    assert.equal(read(baseline, [1]), 0);
    baseline.onChange();
    assert.equal(
      read(baseline, [1], () => baseline.onChange()),
      undefined,
    );
    baseline.begin().beginning(9);
    assert.equal(read(baseline, [1, 2]), 0);
    assert.equal(read(baseline, [1, 2, 3]), 1);
  });

  it('holds as many ids as there are', () => {
    const baseline = new Baseline();
    const ids = Array.from({ length: 5_000 }, (_, index) => index * 7);
    assert.equal(read(baseline, ids), 0);
    assert.equal(read(baseline, [...ids, 1, 2]), 2);
  });
});
