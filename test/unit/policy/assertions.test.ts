import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { isIn } from '../../../lib/cidr/ranges.ts';
import { breaches } from '../../../lib/policy/assertions.ts';
import { checksOf } from '../../../lib/policy/checks.ts';
import { decide } from '../../../lib/policy/decision.ts';
import { flatten } from '../../../lib/policy/flatten.ts';
import { compilePolicy } from '../../../lib/policy/policy.ts';
import { casesOf } from '../../lab/cases.ts';
import { crowdedAddress, crowdedPrefix, FAMILIES, holds } from '../cidr/arbitrary.ts';
import { prefixFrom } from '../cidr/support.ts';
import { anyConfigFiles, edges } from '../config/any-config-files.ts';
import { merge, mergedOf } from '../config/support.ts';

/** Lines of a config file; assertions that it fulfils, or breaks: where, and why. */
const CASES = casesOf(`
  of destinations
    nonMasqueradeCIDRs: [10.0.0.0/8]
    masqueradeCIDRs: [10.244.3.0/24, 10.244.9.0/24, 10.244.11.0/24, 10.250.0.0/15]
    > must-not-masquerade=10.243.0.0/16
    > must-not-masquerade=169.254.0.0/16
    > must-masquerade=8.0.0.0/8
    > must-masquerade=10.251.0.0/16
    > must-not-masquerade=10.244.3.64/26 | a:2:19: | 10.244.3.64/26 is masqueraded (10.244.3.0/24 of a:2:19 decides)
    > must-not-masquerade=10.0.0.0/7 | a:2:19: | 10.244.3.0/24 is masqueraded (10.244.3.0/24 of a:2:19 decides), 10.244.9.0/24 is masqueraded (10.244.9.0/24 of a:2:34 decides), 10.244.11.0/24 is masqueraded (10.244.11.0/24 of a:2:49 decides), and 2 more ranges
    > must-not-masquerade=8.8.8.8/32 | | 8.8.8.8 is masqueraded (no entry matches it)
    > must-masquerade=10.248.0.0/14 | a:1:22: | 10.248.0.0/15 is not masqueraded (10.0.0.0/8 of a:1:22 decides)
    > must-masquerade=169.254.169.254/32 | | 169.254.169.254 is not masqueraded (169.254.0.0/16 (built in, RFC 3927) decides)
  of packets from some addresses, of which the config lists some
    masqueradeFromCIDRs: ["fd00::/8", 10.244.0.0/16, 192.0.2.0/24]
    nonMasqueradeCIDRs: [10.0.0.0/8]
    > must-masquerade=8.0.0.0/8 from 10.244.0.0/16
    > must-masquerade=8.0.0.0/8 from 10.244.7.0/24
    > must-not-masquerade=8.0.0.0/8 from 10.245.0.0/16
    > must-not-masquerade=10.1.0.0/16
    > must-masquerade=8.0.0.0/8 from 10.244.0.0/15 | a:1:35: | masqueradeFromCIDRs does not list 10.245.0.0/16: packets from there are not masqueraded
    > must-not-masquerade=8.8.8.8/32 from 10.0.0.0/8 | | 8.8.8.8 is masqueraded (no entry matches it)
  of packets from addresses that are never masqueraded
    nonMasqueradeFromCIDRs: [10.245.0.0/16, "fd00:245::/32"]
    nonMasqueradeCIDRs: [10.0.0.0/8]
    > must-not-masquerade=8.0.0.0/8 from 10.245.1.0/24
    > must-masquerade=8.0.0.0/8 from 10.244.0.0/16
    > must-masquerade=8.0.0.0/8 from 10.244.0.0/15 | a:1:26: | nonMasqueradeFromCIDRs lists 10.245.0.0/16: packets from there are not masqueraded
    > must-not-masquerade=8.8.8.8/32 from 10.244.0.0/15 | | 8.8.8.8 is masqueraded (no entry matches it)
  with both keys for sources
    masqueradeFromCIDRs: ["fd00::/8", 10.244.0.0/16, 10.244.4.128/25]
    nonMasqueradeFromCIDRs: [10.244.2.0/24, 10.244.4.0/24]
    nonMasqueradeCIDRs: [10.0.0.0/8]
    > must-masquerade=8.0.0.0/8 from 10.244.4.128/25
    > must-not-masquerade=8.0.0.0/8 from 10.244.4.0/25
    > must-masquerade=8.0.0.0/8 from 10.244.0.0/15 | a:2:26: | masqueradeFromCIDRs does not list 10.245.0.0/16: packets from there are not masqueraded; nonMasqueradeFromCIDRs lists 10.244.2.0/24, 10.244.4.0/25: packets from there are not masqueraded
  without a config file
    > must-masquerade=10.0.0.0/16 | | 10.0.0.0/16 is not masqueraded (10.0.0.0/8 (built in, RFC 1918) decides)
`);

/** What is found in config files that must fulfil the assertion, written as on the command line. */
function checked(texts: Readonly<Record<string, string>>, assertion: string) {
  const [, flag = '', prefix = '', from] = /^(.*)=(\S+)(?: from (\S+))?$/.exec(assertion) ?? [];
  const verdict = flag === 'must-masquerade' ? 'masqueraded' : 'not_masqueraded';
  const source = from === undefined ? from : prefixFrom(from);
  const given = { flag, prefix: prefixFrom(prefix), from: source, verdict } as const;
  return merge(texts, { checkVerdicts: checksOf(['IPv4'], [given]) });
}

describe('an assertion', () => {
  for (const { name, given, found } of CASES)
    for (const line of found) {
      const [assertion = '', at, why] = line.split(/ ?\| ?/);
      it(`${name} is ${why === undefined ? 'fulfilled' : 'broken'}: --${assertion}`, () => {
        const { lines, config } = checked(given.length === 0 ? {} : { a: given.join('\n') }, assertion);
        const place = at === '' ? at : `${at} `;
        const broken = `${place}error: the assertion --${assertion} is broken: ${why}; correct the config files; if they are right, change the flag`;
        assert.deepEqual(lines, why === undefined ? [] : [broken]);
        assert.equal(config === undefined, why !== undefined);
      });
    }

  it('that does not say whose packets are meant, where that matters, is to say so', () => {
    const texts = {
      a: 'masqueradeFromCIDRs: [10.244.0.0/16, 192.0.2.0/24]\nnonMasqueradeCIDRs: [10.0.0.0/8]',
    };
    assert.deepEqual(checked(texts, 'must-masquerade=8.0.0.0/8').lines, [
      'a:1:23: error: the assertion --must-masquerade=8.0.0.0/8 is broken: masqueradeFromCIDRs does not list 0.0.0.0-10.243.255.255, 10.245.0.0-192.0.1.255, 192.0.3.0-255.255.255.255: packets from there are not masqueraded; correct the config files; if they are right, say in the flag whose packets are meant: "8.0.0.0/8 from CIDR"',
    ]);
  });
});

describe('the breaches of an assertion by random config files', () => {
  for (const family of FAMILIES)
    it(`hold just the addresses with the other verdict, each with the entry that decides, for ${family}`, () => {
      const verdict = fc.constantFrom('not_masqueraded' as const, 'masqueraded' as const);
      fc.assert(
        fc.property(
          anyConfigFiles(),
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
              const isAny = !decision.source.isLeftAlone;
              const isBroken = isAny && holds(prefix, value) && decision.verdict !== verdict;
              const holding = found.filter((breach) => isIn(value, breach));
              assert.equal(holding.length, isBroken ? 1 : 0, `${prefix.text} ${value}`);
              if (isBroken) assert.deepEqual(holding[0]?.entry, decision.decidedBy);
            }
          },
        ),
      );
    });
});
