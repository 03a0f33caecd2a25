import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fileOf } from '../../../lib/report/report.ts';
import { PROBLEMS } from './report-support.ts';

const { error, warning, info } = PROBLEMS;

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
