import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { readNode } from '../../lib/foreign/read-node.ts';
import { type Box, createBox } from '../lab/box.ts';
import { type HostNetlink, hostNetlink, WITH_NETLINK } from '../lab/netlink.ts';
import { NFT_RULES, tableOf } from '../lab/nft-rules.ts';
import { succeed } from '../lab/run.ts';
import { meaningOf, rulesOf, unlimited } from '../unit/foreign/support.ts';
import { boxHost, CHAIN } from './support.ts';

/** What is read of the base chains of a box that iptables has no rules in, for packets of IPv4. */
async function read(box: Box, { netlink }: HostNetlink) {
  const options = { families: ['IPv4'], ownChain: CHAIN, iptables: undefined } as const;
  return await readNode(boxHost(box, netlink).host, options, unlimited());
}

/** A text with a star in place of what differs. */
function isLike(text: string, pattern: string): boolean {
  const parts = pattern.split('*').map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'));
  return pattern.includes('"eth*"') ? text === pattern : new RegExp(`^${parts.join('.*')}$`).test(text);
}

describe('a rule of nft', { skip: !WITH_NETLINK && 'NETLINK=off' }, () => {
  const stack = new AsyncDisposableStack();
  let node: Awaited<ReturnType<typeof read>>;
  before(async () => {
    const box = stack.use(await createBox());
    await succeed(box.run('nft', ['-f', '-'], { input: tableOf(NFT_RULES) }));
    node = await read(box, stack.use(await hostNetlink(box)));
  });
  after(() => stack[Symbol.asyncDispose]());

  for (const [index, [rule, text = rule, ...meanings]] of NFT_RULES.entries())
    it(`is understood: ${rule}`, async () => {
      const rules = await rulesOf(node.baseChains[0]?.chains.get(`c${index}`));
      const found = rules.map(meaningOf);
      assert.ok(
        found.length === meanings.length && meanings.every((one, at) => isLike(found[at] ?? '', one)),
        found.join('\n'),
      );
      assert.ok(isLike(rules[0]?.text ?? '', `chain c${index}: ${text}`), rules[0]?.text);
    });
});
