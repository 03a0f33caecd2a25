import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { InvalidConfigError } from '../../../lib/config/invalid-config.ts';
import {
  formatProblem,
  gravestFirst,
  KINDS,
  type Problem,
  ProblemList,
  problem,
} from '../../../lib/config/problem.ts';
import { UNPRINTABLE } from './support.ts';

const WORDS = { message: 'is wrong', remedy: 'write it right' };

describe('a problem', () => {
  it('has a kind that says in a sentence what no other kind says', () => {
    const meanings = Object.values(KINDS).map(({ meaning }) => meaning);
    for (const meaning of meanings) assert.match(meaning, /^[A-Z\d].{10,190}[^.]\.$/);
    assert.equal(new Set(meanings).size, meanings.length);
  });

  it('comes before those that are less grave, else in the given order', () => {
    const [info, warning, error] = [
      problem('covered', WORDS),
      problem('empty', WORDS),
      problem('cidr', WORDS),
    ];
    const other = problem('shape', WORDS);
    assert.deepEqual(gravestFirst([info, warning, other, error]), [other, error, warning, info]);
  });
});

describe('a list of problems', () => {
  const listOf = (counts: Partial<Record<'covered' | 'empty' | 'cidr', number>>, strict = false) => {
    const list = new ProblemList({ strict });
    for (const kind of ['covered', 'empty', 'cidr'] as const)
      for (let count = 0; count < (counts[kind] ?? 0); count += 1) list.add(problem(kind, WORDS));
    return list;
  };
  const kindsOf = (list: ProblemList) =>
    [...Map.groupBy(list.reported(), ({ kind }) => kind)].map(([kind, { length }]) => `${length} ${kind}`);
  const lastOf = (list: ProblemList) => formatProblem(list.reported().at(-1) ?? assert.fail('it is empty'));

  it('reports up to 1,000 as they were added', () => {
    assert.deepEqual(kindsOf(listOf({ covered: 500, empty: 300, cidr: 200 })), [
      '500 covered',
      '300 empty',
      '200 cidr',
    ]);
  });

  it('of more reports the gravest, and counts the others', () => {
    const list = listOf({ covered: 5_000, empty: 900, cidr: 200 });
    assert.deepEqual(kindsOf(list), ['800 empty', '200 cidr', '1 more-problems']);
    assert.equal(
      lastOf(list),
      'info: not reported: 100 more warnings, 5000 more infos; resolve those that are reported, then check again',
    );
  });

  it('takes over what another has kept and counted', () => {
    const list = listOf({ empty: 10, cidr: 600 });
    list.addAll(listOf({ covered: 1, cidr: 1_600 }));
    assert.deepEqual(kindsOf(list), ['1000 cidr', '1 more-problems']);
    assert.match(lastOf(list), /: 1200 more errors, 10 more warnings, 1 more info;/);
  });

  it('says of more errors than it reports that there are at least so many', () => {
    const messageOf = (errors: number) => new InvalidConfigError(listOf({ cidr: errors }).reported()).message;
    assert.equal(messageOf(1), '1 error in the config');
    assert.equal(messageOf(1001), 'at least 1000 errors in the config');
  });

  it('counts warnings as errors if it is strict', () => {
    const list = listOf({ covered: 1, empty: 1_500 }, true);
    assert.equal(list.reported()[0]?.severity, 'error');
    assert.match(lastOf(list), /: 500 more errors, 1 more info;/);
  });
});

describe('a problem in one line', () => {
  const at = { kind: 'file', configFile: 'ip-masq-a', line: 3, column: 5 } as const;
  const other = { kind: 'built-in', basis: 'RFC 3927' } as const;
  for (const [name, problem, line] of [
    ['says where, what and what to do', { ...WORDS, at }, 'ip-masq-a:3:5: error: is wrong; write it right'],
    [
      'names the file in which people find the place',
      { ...WORDS, at: { ...at, file: 'a.yaml' } },
      'a.yaml:3:5: error: is wrong; write it right',
    ],
    [
      'names the file alone if it is about the whole file',
      { ...WORDS, at: { kind: 'whole-file', file: 'ip-masq-a' } },
      'ip-masq-a: error: is wrong; write it right',
    ],
    ['names no file if it is about the directory', WORDS, 'error: is wrong; write it right'],
    [
      'names the other origin of a conflict',
      { ...WORDS, at, other },
      'ip-masq-a:3:5: error: is wrong (the other: built in (RFC 3927)); write it right',
    ],
  ] as const) {
    it(name, () => assert.equal(formatProblem({ severity: 'error', kind: 'shape', ...problem }), line));
  }

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
