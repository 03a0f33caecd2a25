import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { load } from 'js-yaml';
import { chartValueRows } from '../../../build/chart-readme.ts';
import { VALUES } from '../../../build/chart-values.ts';

describe('the values of the chart', () => {
  const names = chartValueRows().map(([name = '']) => name.replaceAll('`', ''));

  it('have a meaning each', () => {
    const values = load(VALUES) as Readonly<Record<string, unknown>>;
    const known = Object.keys(values).filter((name) => names.some((one) => one.split('.')[0] === name));
    assert.deepEqual(known, Object.keys(values));
    for (const [name = '', , meaning] of chartValueRows()) assert.notEqual(meaning, '', name);
  });

  it('have names in camel case, except for flags, which have those of the agent', () => {
    const wrong = names.filter((name) => !name.startsWith('flags.') && !/^(?:\.?[a-z]\w*)+$/.test(name));
    assert.deepEqual(wrong, []);
  });
});
