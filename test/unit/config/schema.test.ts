import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { parsePrefix } from '../../../lib/cidr/prefix.ts';
import { parseDuration } from '../../../lib/config/duration.ts';
import { KEY_NAMES } from '../../../lib/config/keys.ts';
import schema from '../../../schemas/ip-masq-config.schema.json' with { type: 'json' };
import { problemLines } from './support.ts';

/** Keywords that refuse nothing by themselves. */
const ANNOTATIONS = '$schema $id $defs $ref title description examples default properties items'.split(' ');

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

  it('takes exactly the texts that are durations', () => {
    const pattern = new RegExp(schema.properties.resyncInterval.pattern, 'u');
    const piece = fc.constantFrom(' ', ...'0 1 .5 2. 90 - + ns us µs ms s m h'.split(' '));
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 6 }), (pieces) => {
        const text = pieces.join('');
        assert.equal(pattern.test(text), parseDuration(text) !== undefined, text);
      }),
    );
  });

  it('takes every network that the agent takes', () => {
    const pattern = new RegExp(schema.$defs.cidr.pattern, 'u');
    const piece = fc.constantFrom(' ', ...'10 0 255 . : :: fd00 FFFF / 8 128 % +'.split(' '));
    const text = fc.oneof(
      fc.array(piece, { maxLength: 9 }).map((pieces) => pieces.join('')),
      fc
        .tuple(fc.oneof(fc.ipV4(), fc.ipV6()), fc.nat(129))
        .map(([address, length]) => `${address}/${length}`),
    );
    fc.assert(
      fc.property(text, (text) => {
        if ('prefix' in parsePrefix(text)) assert.match(text, pattern);
      }),
      { numRuns: 1000 },
    );
  });

  it('finds nothing that messages have no words for', () => {
    const keywords = new Set<string>();
    const visit = (value: unknown, isSchema: boolean): void => {
      if (typeof value !== 'object' || value === null || Array.isArray(value)) return;
      for (const [key, inner] of Object.entries(value)) {
        if (isSchema && !ANNOTATIONS.includes(key)) keywords.add(key);
        visit(inner, !isSchema || !['properties', '$defs'].includes(key));
      }
    };
    visit(schema, true);
    assert.equal([...keywords].sort().join(' '), 'additionalProperties minimum pattern required type');
    const { properties, $defs } = schema;
    assert.deepEqual(
      JSON.stringify(schema)
        .match(/(?<="pattern":)"(?:[^"\\]|\\.)*"/g)
        ?.map((text) => JSON.parse(text)),
      [properties.resyncInterval.pattern, $defs.cidr.pattern],
    );
  });
});
