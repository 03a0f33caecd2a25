import fc from 'fast-check';
import { ADDRESS_BITS } from '../../lib/cidr/address.ts';
import { type Prefix, parsePrefix, truncate } from '../../lib/cidr/prefix.ts';
import { rangeOf } from '../../lib/cidr/ranges.ts';
import { INVALID_PACKETS, type RuleOptions } from '../../lib/dataplane/options.ts';
import { PORT_PROTOCOLS, type PortRange } from '../../lib/dataplane/ports.ts';
import type { Entry, Policy, Verdict } from '../../lib/policy/policy.ts';
import { CHAIN, type Family } from './support.ts';

export function policies(family: Family): fc.Arbitrary<Policy> {
  const origin = { kind: 'built-in', basis: 'test' } as const;
  const from = (verdicts: readonly Verdict[]) =>
    fc.uniqueArray(
      fc.record({
        prefix: prefixes(family),
        verdict: fc.constantFrom(...verdicts),
        origin: fc.constant(origin),
      }),
      { maxLength: 4, selector: ({ prefix }) => prefix.text },
    );
  return fc.record({
    family: fc.constant(family),
    from: fc.oneof(
      fc.constant([]),
      from(['masqueraded']),
      from(['not_masqueraded']),
      from(['masqueraded', 'not_masqueraded']),
    ),
    entries: fc.uniqueArray(entries(family), { maxLength: 12, selector: ({ prefix }) => prefix.text }),
  });
}

function entries(family: Family): fc.Arbitrary<Entry> {
  const origin = fc.record({
    kind: fc.constant('file'),
    // Names of any length and with any characters: the comment must survive them.
    configFile: fc.oneof(fc.string({ unit: 'binary', maxLength: 300 }), fc.string({ maxLength: 20 })),
    line: fc.constant(1),
    column: fc.constant(1),
  });
  const own = prefixes(family).map((prefix) => [{ family, value: rangeOf(prefix).last }]);
  const as = fc.record({
    range: prefixes(family),
    origin,
    candidates: fc.oneof(fc.constant(undefined), fc.constant([]), own),
  });
  const of = (verdict: Entry['verdict'], as: fc.Arbitrary<Entry['as']>) =>
    fc.record({ prefix: prefixes(family), verdict: fc.constant(verdict), origin, as });
  return fc.oneof(
    of('not_masqueraded', fc.constant(undefined)),
    of('masqueraded', fc.oneof(fc.constant(undefined), as)),
  );
}

function prefixes(family: Family): fc.Arbitrary<Prefix> {
  const bits = ADDRESS_BITS[family];
  const groups = family === 'IPv4' ? 4 : 8;
  // Groups that are often zero give IPv6 texts with every kind of "::".
  const group = fc.oneof(fc.constant(0), fc.nat(2 ** (bits / groups) - 1));
  return fc
    .tuple(fc.array(group, { minLength: groups, maxLength: groups }), fc.nat(bits))
    .map(([parts, length]) => {
      const value = parts.reduce((sum, part) => (sum << BigInt(bits / groups)) + BigInt(part), 0n);
      const network = truncate(value, length, family);
      const shown = parts.map(
        (_, index) =>
          (network >> BigInt((bits / groups) * (groups - 1 - index))) % (1n << BigInt(bits / groups)),
      );
      return parsePrefix(
        family === 'IPv4'
          ? `${shown.join('.')}/${length}`
          : `${shown.map((part) => part.toString(16)).join(':')}/${length}`,
      );
    })
    .filter((parsed) => 'prefix' in parsed)
    .map(({ prefix }) => prefix);
}

export function ruleOptions(): fc.Arbitrary<Omit<RuleOptions, 'mode'>> {
  return fc.record({
    chain: fc.constant(CHAIN),
    randomFully: randomFully(),
    toPorts: portRanges(),
    invalidPackets: fc.constantFrom(...INVALID_PACKETS),
  });
}

/** As the command line gives it. */
function randomFully(): fc.Arbitrary<RuleOptions['randomFully']> {
  return fc.oneof(fc.boolean(), fc.subarray([...PORT_PROTOCOLS], { minLength: 1 }));
}

function portRanges(): fc.Arbitrary<readonly PortRange[]> {
  return fc.uniqueArray(fc.integer({ min: 1, max: 65_535 }), { maxLength: 8 }).map((ports) => {
    const sorted = ports.toSorted((a, b) => a - b);
    return sorted.flatMap((first, index) => {
      const last = sorted[index + 1];
      return index % 2 === 0 && last !== undefined ? [{ first, last }] : [];
    });
  });
}
