import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { atMost, quantile, type Row, resultsOf } from '../../bench/row.ts';
import { table } from '../../bench/table.ts';

const row = (name: string, samples: readonly number[], more: Partial<Row> = {}): Row => ({
  group: 'a group',
  name,
  unit: 'ms',
  samples,
  ...more,
});

describe('a result', () => {
  it('has the median and the 95th percentile, whatever the order of the samples', () => {
    const samples = Array.from({ length: 100 }, (_, index) => (index * 37) % 100);
    const [result] = resultsOf([row('a', samples)]);
    assert.deepEqual([result?.median, result?.p95], [50, 95]);
  });

  it('is compared with the median of its baseline in the same group', () => {
    const rows = [row('base', [1, 2, 9]), row('a', [5], { baseline: 'base' })];
    const others = rows.map((other) => ({ ...other, group: 'another', samples: [1] }));
    assert.deepEqual(
      resultsOf([...rows, ...others]).map(({ ratio }) => ratio),
      [undefined, 2.5, undefined, 1],
    );
  });

  for (const [limit, isMet] of [
    [10, true],
    [9.9, false],
  ] as const) {
    it(`of 10 ms ${isMet ? 'meets' : 'misses'} a target of ${limit} ms`, () => {
      const [result] = resultsOf([row('a', [10], { targets: [atMost(limit, 'ms')] })]);
      assert.deepEqual(result?.verdicts, [{ text: `≤ ${limit} ms`, limit, isMet }]);
    });
  }

  it('without a number meets no target', () => {
    const [result] = resultsOf([row('a', [], { targets: [atMost(1, 'ms')] })]);
    assert.equal(result?.verdicts[0]?.isMet, false);
  });

  it('has a target reckoned from other rows of the run', () => {
    const target = { text: '≤ twice', limit: (medianOf: (name: string) => number) => 2 * medianOf('base') };
    const [, result] = resultsOf([row('base', [3, 4, 5]), row('a', [8], { targets: [target] })]);
    assert.deepEqual(result?.verdicts, [{ text: '≤ twice', limit: 8, isMet: true }]);
  });

  it('cannot be compared with a row that is not there', () => {
    assert.throws(() => resultsOf([row('a', [1], { baseline: 'b' })]), /no row "b" under "a group"/);
  });
});

describe('the table', () => {
  it('has a heading for each group, and says of each target whether it is met', () => {
    const rows = [
      row('base', [2]),
      row('a', [4, 4], { baseline: 'base', targets: [atMost(20, 'ms')] }),
      { ...row('b', [21.5], { targets: [atMost(20, 'ms')] }), group: 'another' },
    ];
    assert.deepEqual(
      table(resultsOf(rows))
        .split('\n')
        .map((line) => line.trim().split(/ {2,}/)),
      [
        ['median', 'p95', 'samples', 'ratio', 'target'],
        [''],
        ['a group'],
        ['base', '2 ms', '1'],
        ['a', '4 ms', '4 ms', '2', '2 × base', 'met: ≤ 20 ms'],
        [''],
        ['another'],
        ['b', '21.5 ms', '1', 'NOT MET: ≤ 20 ms'],
      ],
    );
  });

  it('shows the limit of a target that is reckoned', () => {
    const target = { text: '≤ a half', limit: () => 1.5 };
    assert.match(table(resultsOf([row('a', [1], { targets: [target] })])), /met: ≤ a half = 1\.50 ms$/);
  });
});

it('a quantile of nothing is no number', () => {
  assert.ok(Number.isNaN(quantile([], 0.5)));
});
