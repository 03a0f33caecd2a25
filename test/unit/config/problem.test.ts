import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { InvalidConfigError } from '../../../lib/config/invalid-config.ts';
import { formatProblem, type Problem, ProblemList, problem } from '../../../lib/config/problem.ts';
import { UNPRINTABLE } from './support.ts';

const WORDS = { message: 'is wrong', remedy: 'write it right' };

describe('a list of problems', () => {
  const listOf = (counts: Partial<Record<'covered' | 'empty' | 'cidr', number>>) => {
    const list = new ProblemList({ strict: false });
    for (const kind of ['covered', 'empty', 'cidr'] as const)
      for (let count = 0; count < (counts[kind] ?? 0); count += 1) list.add(problem(kind, WORDS));
    return list;
  };
  const kindsOf = (list: ProblemList) =>
    [...Map.groupBy(list.reported(), ({ kind }) => kind)].map(([kind, { length }]) => `${length} ${kind}`);
  const lastOf = (list: ProblemList) => formatProblem(list.reported().at(-1) ?? assert.fail('it is empty'));

  it('reports the first of the gravest, and says that there are more', () => {
    const list = listOf({ covered: 5_000, empty: 90, cidr: 20 });
    assert.deepEqual(kindsOf(list), ['20 cidr', '80 empty', '1 more-problems']);
    assert.equal(
      lastOf(list),
      'info: there are more problems than these 100; resolve those that are reported, then check again',
    );
    assert.deepEqual(kindsOf(listOf({ covered: 60, cidr: 40 })), ['40 cidr', '60 covered']);
  });

  it('says of more errors than it reports that there are at least so many', () => {
    const messageOf = (errors: number) => new InvalidConfigError(listOf({ cidr: errors }).reported()).message;
    assert.equal(messageOf(1), '1 error in the config');
    assert.equal(messageOf(101), 'at least 100 errors in the config');
  });
});

describe('a problem', () => {
  it('is one line, whatever the config file is called', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (configFile) => {
        const at = { kind: 'file', configFile, line: 1, column: 1 } as const;
        const whole: Problem['at'] = { kind: 'whole-file', file: configFile };
        assert.doesNotMatch(formatProblem(problem('shape', { ...WORDS, at, other: at })), UNPRINTABLE);
        assert.doesNotMatch(formatProblem(problem('shape', { ...WORDS, at: whole })), UNPRINTABLE);
      }),
    );
  });
});
