import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { formatProblem, gravestFirst, KINDS, type Problem, problem } from '../../../lib/config/problem.ts';
import { UNPRINTABLE } from './support.ts';

const WORDS = { message: 'is wrong', remedy: 'write it right' };

describe('a problem', () => {
  it('is as grave as its kind', () => {
    const kinds = ['shape', 'empty', 'covered'] as const;
    assert.deepEqual(
      kinds.map((kind) => problem(kind, WORDS).severity),
      ['error', 'warning', 'info'],
    );
  });

  it('has a kind that says in one short sentence what no other kind says', () => {
    const meanings = Object.values(KINDS).map(({ meaning }) => meaning);
    for (const meaning of meanings) assert.match(meaning, /^[A-Z][^.;:]{10,80}\.$/);
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

describe('a problem in one line', () => {
  const at = { kind: 'file', source: 'ip-masq-a', line: 3, column: 5 } as const;
  const other = { kind: 'built-in', reason: 'RFC 3927' } as const;
  for (const [name, problem, line] of [
    ['says where, what and what to do', { ...WORDS, at }, 'ip-masq-a:3:5: error: is wrong; write it right'],
    [
      'names the file in which people find the place',
      { ...WORDS, at: { ...at, file: 'a.yaml' } },
      'a.yaml:3:5: error: is wrong; write it right',
    ],
    [
      'names the file alone if it is about the whole file',
      { ...WORDS, at: { kind: 'whole-file', source: 'ip-masq-a' } },
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

  it('is one line, whatever the source is called', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (source) => {
        const at = { kind: 'file', source, line: 1, column: 1 } as const;
        const whole: Problem['at'] = { kind: 'whole-file', source };
        assert.doesNotMatch(formatProblem(problem('shape', { ...WORDS, at, other: at })), UNPRINTABLE);
        assert.doesNotMatch(formatProblem(problem('shape', { ...WORDS, at: whole })), UNPRINTABLE);
      }),
    );
  });
});
