import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { fileOf, printedSentence, summarize } from '../../../lib/report/report.ts';
import { UNPRINTABLE } from '../config/support.ts';
import { anyProblem, PROBLEMS } from './report-support.ts';

const { error, warning, info, nowhere } = PROBLEMS;

describe('the summary of problems', () => {
  it('counts each severity', () => {
    assert.deepEqual(summarize([info, error, info, warning, nowhere]), { errors: 2, warnings: 1, infos: 2 });
    assert.deepEqual(summarize([]), { errors: 0, warnings: 0, infos: 0 });
  });
});

describe('the sentence of a problem', () => {
  it('is printable, whatever the problem holds', () => {
    fc.assert(
      fc.property(anyProblem(), (problem) => assert.doesNotMatch(printedSentence(problem), UNPRINTABLE)),
    );
  });
});

describe('the file of a place', () => {
  for (const [name, at, file] of [
    ['is where people find the config file', info.at, 'deploy/b.yaml'],
    ['has the name of the config file where it has no other', info.other, 'ip-masq-a'],
    ['is the whole file', error.at, 'ip-masq-c'],
    ['is none for what is built in', warning.other, undefined],
    ['is none for the directory', undefined, undefined],
  ] as const) {
    it(name, () => assert.equal(fileOf(at), file));
  }
});
