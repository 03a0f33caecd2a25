import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { intervalError } from '../../../lib/config/duration.ts';
import { KEY_NAMES } from '../../../lib/config/keys.ts';
import schema from '../../../schemas/ip-masq-config.schema.json' with { type: 'json' };
import { problemLines } from './support.ts';

describe('the schema', () => {
  it('names the keys, in the order in which messages list them', () => {
    assert.deepEqual(KEY_NAMES, Object.keys(schema.properties));
  });

  it('has a title and a description for every key, and a draft', () => {
    for (const { title, description } of Object.values(schema.properties)) assert.ok(title && description);
    assert.match(schema.$schema, /2020-12/);
  });

  for (const example of schema.examples) {
    it(`has an example that the agent takes: ${JSON.stringify(example)}`, () => {
      assert.deepEqual(problemLines(JSON.stringify(example)), []);
    });
  }

  for (const [key, property] of Object.entries(schema.properties)) {
    for (const example of 'examples' in property ? property.examples : [property.default]) {
      it(`has an example or a default of ${key} that the agent takes: ${JSON.stringify(example)}`, () => {
        assert.deepEqual(problemLines(JSON.stringify({ [key]: example })), []);
      });
    }
  }

  it('takes every unsigned duration that the agent takes', () => {
    const pattern = new RegExp(schema.properties.resyncInterval.pattern);
    const term = fc
      .tuple(
        fc.constantFrom('0', '1', '.5', '2.', '90'),
        fc.constantFrom('ns', 'us', 'µs', 'ms', 's', 'm', 'h'),
      )
      .map((parts) => parts.join(''));
    const text = fc.array(term, { minLength: 1, maxLength: 3 }).map((terms) => terms.join(''));
    fc.assert(
      fc.property(text, (text) => {
        if (intervalError(text) === undefined) assert.match(text, pattern);
      }),
    );
  });
});
