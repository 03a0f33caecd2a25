import assert from 'node:assert/strict';
import { type Address, parseAddress } from '../../../lib/cidr/address.ts';
import { type Prefix, parsePrefix } from '../../../lib/cidr/prefix.ts';
import { type Range, rangeOf } from '../../../lib/cidr/ranges.ts';

/** The address that a text is. */
export function addressFrom(text: string): Address {
  return parseAddress(text) ?? assert.fail(`${text} is no address`);
}

/** The prefix that a text is. */
export function prefixFrom(text: string): Prefix {
  const parsed = parsePrefix(text);
  assert.ok('prefix' in parsed, text);
  return parsed.prefix;
}

/** The range that a text is, as formatRange writes it. */
export function rangeFrom(text: string): Range {
  if (text.includes('/')) return rangeOf(prefixFrom(text));
  const [first = '', last = first] = text.split('-');
  return { first: addressFrom(first).value, last: addressFrom(last).value };
}
