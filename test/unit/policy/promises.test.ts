import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { parsePrefix } from '../../../lib/cidr/prefix.ts';
import { isIn } from '../../../lib/cidr/ranges.ts';
import { decide } from '../../../lib/policy/decision.ts';
import { flatten } from '../../../lib/policy/flatten.ts';
import { guardOf } from '../../../lib/policy/guards.ts';
import { compilePolicy, type Verdict } from '../../../lib/policy/policy.ts';
import { breaches } from '../../../lib/policy/promises.ts';
import { crowdedAddress, crowdedPrefix, FAMILIES, holds } from '../cidr/arbitrary.ts';
import { anySources, edges } from '../config/any-sources.ts';
import { merge, mergedOf } from '../config/support.ts';

const TEXTS = {
  a: 'nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqueradeCIDRs: [10.244.3.0/24, 10.244.9.0/24, 10.244.11.0/24, 10.250.0.0/15]\n',
};

describe('a promise', () => {
  for (const [flag, cidr, ...expected] of [
    ['must-not-masquerade', '10.243.0.0/16'],
    ['must-not-masquerade', '169.254.0.0/16'],
    ['must-masquerade', '8.0.0.0/8'],
    ['must-masquerade', '10.251.0.0/16'],
    [
      'must-not-masquerade',
      '10.244.3.64/26',
      'a:2:19: error: the promise --must-not-masquerade=10.244.3.64/26 is broken: 10.244.3.64/26 is masqueraded (10.244.3.0/24 of a:2:19 decides); correct the sources; if they are right, change the flag',
    ],
    [
      'must-not-masquerade',
      '10.0.0.0/7',
      'a:2:19: error: the promise --must-not-masquerade=10.0.0.0/7 is broken: 10.244.3.0/24 is masqueraded (10.244.3.0/24 of a:2:19 decides), 10.244.9.0/24 is masqueraded (10.244.9.0/24 of a:2:34 decides), 10.244.11.0/24 is masqueraded (10.244.11.0/24 of a:2:49 decides), and 2 more ranges; correct the sources; if they are right, change the flag',
    ],
    [
      'must-not-masquerade',
      '8.8.8.8/32',
      'error: the promise --must-not-masquerade=8.8.8.8/32 is broken: 8.8.8.8 is masqueraded (no entry matches it); correct the sources; if they are right, change the flag',
    ],
    [
      'must-masquerade',
      '10.248.0.0/14',
      'a:1:22: error: the promise --must-masquerade=10.248.0.0/14 is broken: 10.248.0.0/15 is not masqueraded (10.0.0.0/8 of a:1:22 decides); correct the sources; if they are right, change the flag',
    ],
    [
      'must-masquerade',
      '169.254.169.254/32',
      'error: the promise --must-masquerade=169.254.169.254/32 is broken: 169.254.169.254 is not masqueraded (169.254.0.0/16 (built in, RFC 3927) decides); correct the sources; if they are right, change the flag',
    ],
  ] as const)
    it(`${expected.length === 0 ? 'is kept' : 'is broken'}: --${flag}=${cidr}`, () => {
      const prefix = prefixOf(cidr);
      const verdict: Verdict = flag === 'must-masquerade' ? 'masqueraded' : 'not_masqueraded';
      const guard = guardOf(['IPv4'], [{ flag, prefix, verdict }]);
      const { lines, config } = merge(TEXTS, { guard });
      assert.deepEqual(lines, expected);
      assert.equal(config === undefined, expected.length > 0);
    });

  it('is broken by the defaults too', () => {
    const promise = {
      flag: 'must-masquerade',
      prefix: prefixOf('10.0.0.0/16'),
      verdict: 'masqueraded',
    } as const;
    const { lines } = merge({}, { guard: guardOf(['IPv4'], [promise]) });
    assert.match(lines.join(), /10\.0\.0\.0\/8 \(built in, RFC 1918\) decides/);
  });
});

describe('a promise about packets from some addresses', () => {
  const LIMITED = { a: `${TEXTS.a}masqueradeFromCIDRs: [10.244.0.0/16, 192.0.2.0/24]\n` };
  for (const [flag, cidr, from, ...expected] of [
    ['must-masquerade', '8.0.0.0/8', '10.244.0.0/16'],
    ['must-masquerade', '8.0.0.0/8', '10.244.7.0/24'],
    ['must-not-masquerade', '8.0.0.0/8', '10.245.0.0/16'],
    ['must-not-masquerade', '10.1.0.0/16', undefined],
    [
      'must-masquerade',
      '8.0.0.0/8',
      undefined,
      'a:3:23: error: the promise --must-masquerade=8.0.0.0/8 is broken: masqueradeFromCIDRs does not list 0.0.0.0-10.243.255.255, 10.245.0.0-192.0.1.255, 192.0.3.0-255.255.255.255: packets from there are not masqueraded; correct the sources; if they are right, say in the flag whose packets are meant: "8.0.0.0/8 from CIDR"',
    ],
    [
      'must-masquerade',
      '8.0.0.0/8',
      '10.244.0.0/15',
      'a:3:23: error: the promise --must-masquerade=8.0.0.0/8 from 10.244.0.0/15 is broken: masqueradeFromCIDRs does not list 10.245.0.0/16: packets from there are not masqueraded; correct the sources; if they are right, change the flag',
    ],
    [
      'must-not-masquerade',
      '8.8.8.8/32',
      '10.0.0.0/8',
      'error: the promise --must-not-masquerade=8.8.8.8/32 from 10.0.0.0/8 is broken: 8.8.8.8 is masqueraded (no entry matches it); correct the sources; if they are right, change the flag',
    ],
  ] as const)
    it(`is ${expected.length === 0 ? 'kept' : 'broken'}: --${flag}=${cidr} from ${from}`, () => {
      const verdict: Verdict = flag === 'must-masquerade' ? 'masqueraded' : 'not_masqueraded';
      const promise = { flag, prefix: prefixOf(cidr), from: from && prefixOf(from), verdict };
      const { lines, config } = merge(LIMITED, { guard: guardOf(['IPv4'], [promise]) });
      assert.deepEqual(lines, expected);
      assert.equal(config === undefined, expected.length > 0);
    });
});

describe('the breaches of a promise by random sources', () => {
  for (const family of FAMILIES)
    it(`hold just the addresses with the other verdict, each with the entry that decides, for ${family}`, () => {
      const verdict = fc.constantFrom('not_masqueraded' as const, 'masqueraded' as const);
      fc.assert(
        fc.property(
          anySources(),
          crowdedPrefix(family),
          verdict,
          fc.array(crowdedAddress(family)),
          ({ families, texts }, prefix, verdict, addresses) => {
            fc.pre(families.includes(family));
            const config = mergedOf(texts);
            const policy = compilePolicy(config, family);
            const found = breaches(policy, flatten(policy), { prefix, verdict })?.destinations ?? [];
            const around = edges(family, [prefix, ...policy.entries.map((entry) => entry.prefix)]);
            for (const value of [...addresses, ...around]) {
              const decision = decide(config, { family, value });
              const isBroken = holds(prefix, value) && decision.verdict !== verdict;
              const holding = found.filter((breach) => isIn(value, breach));
              assert.equal(holding.length, isBroken ? 1 : 0, `${prefix.text} ${value}`);
              if (isBroken) assert.deepEqual(holding[0]?.entry, decision.decidedBy);
            }
          },
        ),
      );
    });
});

function prefixOf(text: string) {
  const parsed = parsePrefix(text);
  assert.ok('prefix' in parsed, text);
  return parsed.prefix;
}
