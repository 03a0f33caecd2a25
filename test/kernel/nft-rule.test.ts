import { describe, it } from 'node:test';
import { compareRules, readCorpus } from '../lab/iptables-corpus.ts';

const CORPUS = await readCorpus();

describe('rules of iptables-nft, read over netlink, are what iptables -S prints', () => {
  for (const group of CORPUS)
    it(`recorded rules of other programs, ${group.family} ${group.table}`, async (context) => {
      await compareRules(context, group, (tool) => tool);
    });
});
