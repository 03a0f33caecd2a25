import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { isIn } from '../../../lib/cidr/ranges.ts';
import { breaches } from '../../../lib/policy/assertions.ts';
import { decide } from '../../../lib/policy/decision.ts';
import { flatten } from '../../../lib/policy/flatten.ts';
import { compilePolicy } from '../../../lib/policy/policy.ts';
import { crowdedAddress, crowdedPrefix, FAMILIES, holds } from '../cidr/arbitrary.ts';
import { anyConfigFiles, edges } from '../config/any-config-files.ts';
import { mergedOf } from '../config/support.ts';

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
