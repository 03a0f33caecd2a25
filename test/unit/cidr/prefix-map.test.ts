import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Prefix } from '../../../lib/cidr/prefix.ts';
import { PrefixMap } from '../../../lib/cidr/prefix-map.ts';
import { crowdedAddress, crowdedPrefix, FAMILIES, holds, longest, prefixOf, surrounds } from './arbitrary.ts';

interface Item {
  readonly prefix: Prefix;
  readonly id: number;
}

describe('a prefix map', () => {
  for (const family of FAMILIES) {
    const items = fc
      .array(crowdedPrefix(family), { maxLength: 20 })
      .map((prefixes) => prefixes.map((prefix, id): Item => ({ prefix, id })));

    it(`finds the longest ${family} prefix that holds an address, as a search through all does`, () => {
      fc.assert(
        fc.property(items, crowdedAddress(family), (items, value) => {
          const expected = longest(latest(items).filter(({ prefix }) => holds(prefix, value)));
          assert.equal(mapOf(items).longestMatch({ family, value }), expected);
        }),
        { numRuns: 500 },
      );
    });

    it(`finds the nearest ${family} prefix around another, as a search through all does`, () => {
      fc.assert(
        fc.property(items, crowdedPrefix(family), (items, inner) => {
          const expected = longest(latest(items).filter(({ prefix }) => surrounds(prefix, inner)));
          assert.equal(mapOf(items).nearestWider(inner), expected);
        }),
        { numRuns: 500 },
      );
    });

    it(`returns what was set last for a ${family} prefix, and nothing for one of another length`, () => {
      fc.assert(
        fc.property(items, crowdedPrefix(family), (items, prefix) => {
          const expected = items.findLast((item) => item.prefix.text === prefix.text);
          assert.equal(mapOf(items).get(prefix), expected);
        }),
      );
    });
  }

  it('keeps the families apart', () => {
    const map = new PrefixMap<string>();
    map.set(prefixOf('IPv4', 0n, 0), 'all of IPv4');
    assert.equal(map.longestMatch({ family: 'IPv6', value: 1n }), undefined);
    assert.equal(map.get(prefixOf('IPv6', 0n, 0)), undefined);
    map.set(prefixOf('IPv6', 0n, 0), 'all of IPv6');
    assert.equal(map.longestMatch({ family: 'IPv4', value: 1n }), 'all of IPv4');
    assert.equal(map.nearestWider(prefixOf('IPv6', 0n, 128)), 'all of IPv6');
  });

  it('has nothing around the whole address space', () => {
    const map = new PrefixMap<string>();
    map.set(prefixOf('IPv4', 0n, 0), 'all');
    assert.equal(map.nearestWider(prefixOf('IPv4', 0n, 0)), undefined);
  });
});

function mapOf(items: readonly Item[]): PrefixMap<Item> {
  const map = new PrefixMap<Item>();
  for (const item of items) map.set(item.prefix, item);
  return map;
}

/** The items without those that a later one replaces. */
function latest(items: readonly Item[]): readonly Item[] {
  return items.filter(
    ({ prefix, id }) => !items.some((later) => later.id > id && later.prefix.text === prefix.text),
  );
}
