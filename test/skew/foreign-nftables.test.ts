import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readNode } from '../../lib/foreign/read-node.ts';
import { boxHost, CHAIN } from '../kernel/support.ts';
import { createBox } from '../lab/box.ts';
import { hostNetlink } from '../lab/netlink.ts';
import { NFT_RULES, tableOf } from '../lab/nft-rules.ts';
import { oldNft, RELEASES, type Release, withoutTools } from '../lab/releases.ts';
import { succeed } from '../lab/run.ts';
import { meaningOf, rulesOf, unlimited } from '../unit/foreign/support.ts';

/** What is read of a table that nft of the release has made, which the nft of this machine may die of. */
async function readTableOf(release: Release): Promise<readonly string[]> {
  await using box = await createBox();
  await succeed(box.run(oldNft(release), ['-f', '-'], { input: tableOf(NFT_RULES) }));
  await using stack = new AsyncDisposableStack();
  const { host } = boxHost(box, stack.use(await hostNetlink(box)).netlink);
  const options = { families: ['IPv4'], ownChain: CHAIN, iptables: undefined } as const;
  const { baseChains, unread } = await readNode(host, options, unlimited());
  assert.deepEqual(unread, []);
  const texts: string[] = [];
  for (const [name, chain] of baseChains[0]?.chains ?? [])
    for (const rule of await rulesOf(chain)) texts.push(`${name}: ${rule.text}: ${meaningOf(rule)}`);
  return texts;
}

describe('a table reads the same whichever nft has made it:', () => {
  for (const release of RELEASES)
    it(release, { skip: withoutTools(release) || withoutTools('bookworm') }, async () => {
      assert.deepEqual(await readTableOf(release), await readTableOf('bookworm'));
    });
});
