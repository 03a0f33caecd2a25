import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { explainForeign } from '../../../lib/foreign/find.ts';
import { addressFrom } from '../cidr/support.ts';
import { baseChainOf, KUBE_PROXY } from './support.ts';

const JUMP = '-A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT';
const ACCEPT = '-A POSTROUTING -d 10.1.0.0/16 -j ACCEPT';
const RETURN = '-A POSTROUTING -d 10.1.0.0/16 -j RETURN';
const GOTO = '-A POSTROUTING -d 10.1.0.0/16 -g ELSEWHERE';

/** Lines, an address, how many rules may masquerade it, and the rule that keeps it from our chain. */
const EXPLAINED: readonly (readonly [lines: readonly string[], text: string, rules: number, end?: string])[] =
  [
    [[JUMP], '10.1.2.3', 0],
    [[ACCEPT, JUMP], '10.1.2.3', 0, ACCEPT],
    [[...KUBE_PROXY, ACCEPT, JUMP], '10.1.2.3', 0, ACCEPT],
    [[ACCEPT, JUMP], '10.2.2.3', 0],
    [[RETURN, JUMP], '10.1.2.3', 0, RETURN],
    [['-A POSTROUTING -d 10.9.0.0/16 -j RETURN', RETURN, JUMP], '10.1.2.3', 0, RETURN],
    [[...KUBE_PROXY, RETURN, JUMP], '10.1.2.3', 0, RETURN],
    [['-A POSTROUTING -s 10.0.0.0/8 -j RETURN', JUMP], '10.1.2.3', 0],
    [['-A POSTROUTING -j A', '-A A -j RETURN', JUMP], '10.1.2.3', 0],
    [[JUMP, RETURN], '10.1.2.3', 0],
    [[GOTO, JUMP, '-A ELSEWHERE -s 10.0.0.0/8 -j RETURN'], '10.1.2.3', 0, GOTO],
    [[GOTO, JUMP], '10.2.2.3', 0],
    [[JUMP, ACCEPT], '10.1.2.3', 0],
    [['-A POSTROUTING -j A', JUMP, '-A A -d 10.2.0.0/16 -j ACCEPT'], '10.1.2.3', 0],
    [['-A POSTROUTING -j A', '-A A -j IP-MASQ-AGENT', '-A POSTROUTING -j ACCEPT'], '10.1.2.3', 0],
    [['-A POSTROUTING -j A', '-A A -j B', '-A B -j A', ACCEPT, JUMP], '10.1.2.3', 0, ACCEPT],
    [[ACCEPT], '10.1.2.3', 0],
    [['-A POSTROUTING -o eth0 -j ACCEPT', JUMP], '10.1.2.3', 0],
    [['-A POSTROUTING -d 8.8.8.8/32 -j MASQUERADE', JUMP], '8.8.8.8', 1],
    [[JUMP, '-A POSTROUTING -j MASQUERADE', '-A POSTROUTING -o x -j SNAT --to-source 1.1.1.1'], '8.8.8.8', 1],
  ];

describe('one address', () => {
  for (const [lines, text, rules, end] of EXPLAINED) {
    it(`${text} with ${lines.map((line) => line.replace('-A POSTROUTING ', '')).join('; ')}`, async () => {
      const node = { baseChains: [baseChainOf(lines)], unread: [], skipped: [], samePriority: [] };
      const { masquerading, exempting } = await explainForeign(node, addressFrom(text));
      assert.equal(masquerading.length, rules);
      const certain = exempting.find(({ conditions }) => conditions.length === 0);
      assert.deepEqual(certain?.path, end === undefined ? undefined : [end]);
    });
  }

  for (const [rule, links, rules] of [
    ['-o eth1 -j MASQUERADE', ['eth0'], 0],
    ['-o eth1 -j MASQUERADE', ['eth0', 'eth1'], 1],
    ['-o eth1 -j MASQUERADE', [], 1],
    ['! -o eth+ -j MASQUERADE', ['eth0', 'eth1'], 0],
    ['! -o docker0 -j MASQUERADE', ['eth0'], 1],
  ] as const)
    it(`that leaves by ${links.join(' or ') || 'an unknown link'} with ${rule}`, async () => {
      const node = { baseChains: [baseChainOf([`-A POSTROUTING ${rule}`])], unread: [] };
      const { masquerading } = await explainForeign(node, addressFrom('8.8.8.8'), undefined, links);
      assert.equal(masquerading.length, rules);
    });
});
