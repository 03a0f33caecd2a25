import { FAMILIES } from '../../../lib/cidr/address.ts';
import { type Prefix, parsePrefix } from '../../../lib/cidr/prefix.ts';
import { UNROUTED_RANGES } from '../../../lib/cidr/reserved.ts';
import { DEFAULT_LIMITS } from '../../../lib/config/limits.ts';
import { checksOf } from '../../../lib/policy/checks.ts';
import type { Claim } from '../../../lib/ranges/claims.ts';
import type { Options } from '../../../lib/ranges/decide.ts';
import type { LastUse } from '../../../lib/ranges/last-use.ts';

export const MINUTE = 60_000;
export const NOW = Date.parse('2026-11-29T12:00:00Z');

export const OPTIONS: Options = {
  within: UNROUTED_RANGES.map(({ prefix }) => prefix),
  grace: 30 * MINUTE,
  mostRemoved: 50,
  config: {
    ...DEFAULT_LIMITS,
    families: FAMILIES,
    strict: false,
    noMasqAllReservedRanges: false,
    requiredFiles: [],
    checkVerdicts: checksOf(FAMILIES, []),
  },
};

export function prefix(text: string): Prefix {
  const parsed = parsePrefix(text);
  if ('error' in parsed) throw new Error(`${text} ${parsed.error.message}`);
  return parsed.prefix;
}

/** The items of a list with spaces. */
function words(text: string): readonly string[] {
  return text.split(' ').filter(Boolean);
}

/** A claim of the Node n0 for the first text, of n1 for the second. */
export function claims(kind: Claim['kind'], text: string): readonly Claim[] {
  return words(text).map((one, index) => {
    if (kind !== 'node' && kind !== 'address') return { text: one, kind, by: `${kind} ${index}` };
    return { text: one, kind, by: `Node n${index}`, node: { name: `n${index}`, uid: `uid-${index}` } };
  });
}

/** The uses that a text such as `now 10.1.0.0/16, 20 10.2.0.0/16` tells, with minutes before NOW. */
export function uses(text: string): readonly LastUse[] {
  return text.split(',').flatMap((group) => {
    const [time, ...cidrs] = words(group);
    if (time === undefined) return [];
    return { at: time === 'now' ? time : NOW - Number(time) * MINUTE, prefixes: cidrs.map(prefix) };
  });
}
