import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { checksFor } from '../kernels/checks.ts';
import { MACHINES } from '../kernels/machines.ts';

describe('the checks of a kernel', () => {
  for (const machine of MACHINES)
    it(`have titles of their own, and those for each change are among all: ${machine.name}`, () => {
      const titles = checksFor(machine, false).map(({ title }) => title);
      assert.equal(new Set(titles).size, titles.length);
      const few = checksFor(machine, true).map(({ title }) => title);
      assert.ok(few.length > 0 && few.every((title) => titles.includes(title)));
    });
});
