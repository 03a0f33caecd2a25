import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Family } from '../../../lib/cidr/address.ts';
import type { Host } from '../../../lib/dataplane/host.ts';
import { type BaseChain, readBaseChain } from '../../../lib/foreign/base-chain.ts';
import { createNftReader, createRefusal } from '../../../lib/foreign/read-nftables.ts';
import type { NatChain } from '../../../lib/netlink/replies.ts';
import { fakeHost, listing, nftables, OWN, rule, unlimited } from './support.ts';

/** Reads a base chain with all chains that it leads to. */
function readerOf(host: Host): (base: NatChain, family: Family) => Promise<BaseChain | undefined> {
  const reader = createNftReader(host, OWN, unlimited(), createRefusal(host.netlink));
  return (base, family) =>
    readBaseChain({ chainText: 'here', family, name: base.chain }, 256, reader(base, family));
}

describe('a chain of nftables', () => {
  it('is read once, with what it leads to and the sets that it needs', async () => {
    const commands: string[] = [];
    const daddr = { payload: { protocol: 'ip', field: 'daddr' } };
    const odd = 'no "name"; add table ip x';
    const host = fakeHost(
      {
        [listing('chain', 'inet', 'maps', 'post')]: nftables(
          rule('post', { match: { op: '==', left: daddr, right: '@s' } }, { accept: null }),
          rule('post', { jump: { target: 'accept' } }),
          rule('post', { goto: { target: 'accept' } }),
          rule('post', { jump: { target: 'gone' } }),
          rule('post', { jump: { target: odd } }),
        ),
        [listing('chain', 'inet', 'maps', 'accept')]: nftables(rule('accept', { masquerade: null })),
        [listing('chain', 'inet', 'maps', odd)]: nftables(rule(odd, { masquerade: null })),
        [listing('set', 'inet', 'maps', 's')]: nftables({ set: { name: 's' } }),
        nft: { code: 1, stderr: 'Error: No such file or directory' },
      },
      commands,
    );
    const read = readerOf(host);
    const chain = { family: 'inet', table: 'maps', chain: 'post', priority: 100 } as const;
    const [four, six] = [await read(chain, 'IPv4'), await read(chain, 'IPv6')];
    assert.deepEqual([...(four?.chains.keys() ?? [])], ['post', 'accept', odd]);
    assert.deepEqual(six?.unread, ['chain gone']);
    assert.deepEqual(commands, [
      listing('chain', 'inet', 'maps', 'post'),
      listing('set', 'inet', 'maps', 's'),
      listing('chain', 'inet', 'maps', 'accept'),
      listing('chain', 'inet', 'maps', 'gone'),
      listing('chain', 'inet', 'maps', odd),
    ]);
  });

  it('is none where it has gone', async () => {
    const host = fakeHost({ nft: { code: 1, stderr: 'internal:0:0-0: Error: No such file or directory' } });
    assert.equal(
      await readerOf(host)({ family: 'ip', table: 't', chain: 'p', priority: 100 }, 'IPv4'),
      undefined,
    );
  });

  it('is told where nft cannot read it, or a map that says where it leads', async () => {
    const vmap = { vmap: { key: { meta: { key: 'oifname' } }, data: '@jumps' } };
    const stderr = 'internal:0:0-0: Error: syntax error\nmore';
    const host = fakeHost({
      [listing('chain', 'ip', 'b', 'p')]: nftables(rule('p', vmap)),
      nft: { code: 1, stderr },
    });
    const read = readerOf(host);
    const unread = async (table: string) =>
      (await read({ family: 'ip', table, chain: 'p', priority: 100 }, 'IPv4'))?.unread;
    assert.deepEqual(await unread('a'), ['nft -j list chain ip a p failed: Error: syntax error']);
    assert.deepEqual(await unread('b'), ['nft -j list map ip b jumps failed: Error: syntax error']);
  });

  it('that leads to more chains than can be read says so, in the same words whichever they are', async () => {
    const unread = async (letter: string) => {
      const targets = Array.from({ length: 300 }, (_, index) => `${letter}${index}`);
      const host = fakeHost({
        [listing('chain', 'ip', 't', 'p')]: nftables(
          ...targets.map((target) => rule('p', { jump: { target } })),
        ),
        nft: nftables(),
      });
      return await readerOf(host)({ family: 'ip', table: 't', chain: 'p', priority: 100 }, 'IPv4');
    };
    const [a, b] = [await unread('a'), await unread('b')];
    assert.equal(a?.chains.size, 256);
    assert.deepEqual(a?.unread, ['only 256 of the chains that it leads to are read']);
    assert.deepEqual(b?.unread, a?.unread);
  });
});

describe('nft that cannot list a chain', () => {
  for (const [name, answer, message] of [
    ['is not installed', undefined, /^nft is not installed$/],
    ['has no JSON', { code: 1, stderr: 'Error: JSON support not compiled-in' }, /not compiled-in$/],
    ['prints something else', { stdout: 'table ip nat' }, /the output is not JSON$/],
    ['says nothing', { code: 3 }, /^nft -j list chain ip t p failed: exit code 3$/],
    ['may not look', { code: 1, stderr: 'Operation not permitted (you must be root)\nx' }, /root\)$/],
  ] as const)
    it(`is told where it ${name}`, async () => {
      const read = readerOf(fakeHost(answer === undefined ? {} : { nft: answer }));
      const found = await read({ family: 'ip', table: 't', chain: 'p', priority: 100 }, 'IPv4');
      assert.match(found?.unread[0] ?? '', message);
    });
});
