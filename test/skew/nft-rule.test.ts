import { describe, it } from 'node:test';
import fc from 'fast-check';
import { createRuleLab, readCorpus } from '../lab/iptables-corpus.ts';
import { randomRules } from '../lab/random-rules.ts';
import { oldTool, RELEASES, withoutTools } from '../lab/releases.ts';
import { RUNS } from '../lab/runs.ts';

const CORPUS = await readCorpus();

for (const release of RELEASES)
  describe(`rules of iptables-nft of ${release}, read over netlink, are what its iptables -S prints`, {
    concurrency: true,
    skip: withoutTools(release),
  }, () => {
    for (const group of CORPUS)
      it(`recorded rules of programs, ${group.family} ${group.table}`, async (context) => {
        await using lab = await createRuleLab((tool) => oldTool(release, tool));
        await lab.compare(context, group);
      });

    for (const family of ['IPv4', 'IPv6'] as const)
      it(`random combinations of matches, ${family}`, async (context) => {
        await using lab = await createRuleLab((tool) => oldTool(release, tool));
        const property = fc.asyncProperty(randomRules(family), async (rules) => {
          await lab.compare(context, { family, table: 'nat', rules });
        });
        await fc.assert(property, { numRuns: 10 * RUNS });
      });
  });
