import { describe, it } from 'node:test';
import { compareRules, readCorpus } from '../lab/iptables-corpus.ts';
import { oldTool, RELEASES, withoutTools } from '../lab/releases.ts';

const CORPUS = await readCorpus();

for (const release of RELEASES)
  describe(`rules of iptables-nft of ${release}, read over netlink, are what its iptables -S prints`, {
    concurrency: true,
    skip: withoutTools(release),
  }, () => {
    for (const group of CORPUS)
      it(`recorded rules of other programs, ${group.family} ${group.table}`, async (context) => {
        await compareRules(context, group, (tool) => oldTool(release, tool));
      });
  });
