import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Requests } from '../../../lib/dataplane/netlink.ts';
import { type BaseChain, readBaseChain } from '../../../lib/foreign/base-chain.ts';
import { MOST_CHAINS, MOST_KEPT } from '../../../lib/foreign/budget.ts';
import { createNftReader } from '../../../lib/foreign/read-nftables.ts';
import { NetlinkError } from '../../../lib/netlink/error.ts';
import type { RuleReply } from '../../../lib/netlink/replies.ts';
import { fakeNetlink } from '../dataplane/support.ts';
import { jump, MASQUERADE, OWN, reply, rulesOf, unlimited, visiting } from './support.ts';

/** Reads the chain `post` of an inet table, with all chains that it leads to. */
async function read(
  rules: (chain: string) => readonly RuleReply[],
  more: Partial<Requests> = {},
): Promise<BaseChain | undefined> {
  const requests = { eachRule: visiting(rules), ...more };
  const table = { family: 'inet', table: 't', chain: 'post' } as const;
  const reader = createNftReader(fakeNetlink(requests), table, 'IPv4', OWN, unlimited());
  return await readBaseChain({ chainText: 'here', family: 'IPv4', name: 'post' }, MOST_CHAINS.nft, reader);
}

const DADDR = { name: 'payload', base: 1, offset: 16, to: 1, length: 4 } as const;
const IN_SET = { name: 'lookup', set: 's', from: 1, flags: 0 } as const;

describe('a chain of nftables', () => {
  it('is read once, with what it leads to; a set once for all', async () => {
    const asked: string[] = [];
    const rules: Readonly<Record<string, readonly RuleReply[]>> = {
      post: [reply(DADDR, IN_SET, jump('a')), reply(jump('a')), reply(jump('no "name"; add table ip x'))],
      a: [reply(DADDR, IN_SET, MASQUERADE)],
    };
    const found = await read(
      (chain) => {
        asked.push(chain);
        return rules[chain] ?? [];
      },
      {
        set: async ({ set }) => {
          asked.push(set);
          return { name: set, handle: 1, flags: 0, keyType: 7, keyBytes: 4, expressions: [] };
        },
        elements: async () => {
          const ranges = [{ first: 1n, last: 2n, packets: undefined }];
          return { ranges, catchAll: false, hasOthers: false };
        },
      },
    );
    assert.deepEqual(asked, ['post', 's', 'a', 'no "name"; add table ip x']);
    assert.deepEqual([...(found?.chains.keys() ?? [])], ['post', 'a', 'no "name"; add table ip x']);
    const [first] = await rulesOf(found?.chains.get('a'));
    assert.deepEqual(first?.destinations.ranges, [{ first: 1n, last: 2n }]);
    assert.equal(first?.deletion, 'nft delete rule inet t a handle 7');
  });

  it('is told where the kernel says no, and others are read', async () => {
    const found = await read((chain) => {
      if (chain === 'big') throw new NetlinkError('limit', 'more than 5000 rules');
      return chain === 'post' ? [reply(jump('big')), reply(MASQUERADE)] : [];
    });
    assert.deepEqual([...(found?.chains.keys() ?? [])], ['post']);
    assert.deepEqual(found?.unread, ['chain big: more than 5000 rules']);
  });

  it('that leads to more chains than can be read says so, in the same words whichever they are', async () => {
    const unread = async (letter: string) =>
      await read((chain) => {
        if (chain !== 'post') return [];
        return Array.from({ length: MOST_CHAINS.nft }, (_, index) => reply(jump(`${letter}${index}`)));
      });
    const [a, b] = [await unread('a'), await unread('b')];
    assert.equal(a?.chains.size, MOST_CHAINS.nft);
    assert.deepEqual(a?.unread, [`only ${MOST_CHAINS.nft} of the chains that it leads to are read`]);
    assert.deepEqual(b?.unread, a?.unread);
  });

  it('is not all that is read: what is kept of a node has a limit', async () => {
    const many = (letter: string) =>
      Array.from({ length: MOST_KEPT / 2 }, (_, index) => reply(jump(`${letter}${index}`)));
    const { chains, cutBy } = (await read((chain) => many(chain))) ?? assert.fail();
    assert.match(cutBy?.message ?? '', new RegExp(`more than ${MOST_KEPT} chains and elements`));
    assert.equal(chains.size, 1);
  });
});
