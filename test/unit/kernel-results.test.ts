import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { checksFor } from '../kernels/checks.ts';
import { MACHINES } from '../kernels/machines.ts';
import { type KernelResult, withRun } from '../kernels/results.ts';

const RESULT: KernelResult = {
  name: '6.1',
  title: '6.1',
  version: '6.1.1-1',
  checks: { a: 'passed', b: 'passed' },
  refusals: {},
};
const OTHER: KernelResult = { ...RESULT, name: '5.10' };

describe('the results of kernels', () => {
  it('keep what the same version has shown and was not looked at again, and other machines', () => {
    const run: KernelResult = { ...RESULT, checks: { b: 'failed' } };
    assert.deepEqual(withRun([RESULT, OTHER], [run], ['5.10', '6.1']), [
      OTHER,
      { ...RESULT, checks: { a: 'passed', b: 'failed' } },
    ]);
  });

  it('begin anew with another version', () => {
    const run: KernelResult = { ...RESULT, version: '6.1.2-1', checks: { b: 'passed' } };
    assert.deepEqual(withRun([RESULT], [run], ['6.1']), [run]);
  });

  it('lose machines that are no more', () => {
    assert.deepEqual(withRun([RESULT, OTHER], [], ['6.1']), [RESULT]);
  });
});

describe('the checks of a kernel', () => {
  for (const machine of MACHINES)
    it(`have titles of their own, and those for each change are among all: ${machine.name}`, () => {
      const titles = checksFor(machine, false).map(({ title }) => title);
      assert.equal(new Set(titles).size, titles.length);
      const few = checksFor(machine, true).map(({ title }) => title);
      assert.ok(few.length > 0 && few.every((title) => titles.includes(title)));
    });
});
