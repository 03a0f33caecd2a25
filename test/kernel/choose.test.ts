import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { choose } from '../../lib/dataplane/choose.ts';
import type { DataplaneOptions } from '../../lib/dataplane/options.ts';
import { createBox } from '../lab/box.ts';
import { hostNetlink, WITH_NETLINK } from '../lab/netlink.ts';
import { olderAgentRules } from '../lab/older-agent.ts';
import { succeed } from '../lab/run.ts';
import { boxHost, DEFAULTS } from './support.ts';

const AUTO: DataplaneOptions = { ...DEFAULTS, backend: 'auto', mode: 'auto' };

const CHAIN = ':IP-MASQ-AGENT - [0:0]';
const JUMP = '-A POSTROUTING -j IP-MASQ-AGENT';
const OWN_RULES = [
  CHAIN,
  '-A IP-MASQ-AGENT -d 10.0.0.0/8 -m comment --comment "ip-masq-agent: not masqueraded (default, RFC 1918)" -j RETURN',
];
const OLDER_RULES = olderAgentRules().filter((line) => !line.startsWith('-A POSTROUTING'));

/** The command that writes these lines to nat. */
const inNat = (tool: string, lines: readonly string[]) =>
  [`${tool}-restore --noflush <<'END'`, '*nat', ...lines, 'COMMIT', 'END'].join('\n');

const OWN_SETS =
  "nft 'add table ip6 ip-masq-agent; add set ip6 ip-masq-agent not-masqueraded { type ipv6_addr; flags interval; }'";
const OWN_TABLE = `${OWN_SETS}\nnft add chain ip6 ip-masq-agent postrouting`;
const OWN_CHAIN = inNat('iptables-nft', OWN_RULES);
const PROXY_TABLE = 'nft add table ip6 kube-proxy';
const PROXY_CHAIN = 'iptables-nft -t nat -N KUBE-SERVICES';

/** Commands that make the node look as it does, and what to choose then. */
const NODES: readonly (readonly [node: string, setUp: readonly string[], choice: string])[] = [
  ['an empty node', [], 'iptables trial'],
  [
    'a node with chains of kubelet alone',
    [
      'iptables-nft -t mangle -N KUBE-IPTABLES-HINT',
      'iptables-nft -t mangle -N KUBE-KUBELET-CANARY',
      'iptables-nft -t nat -N KUBE-POSTROUTING',
    ],
    'iptables trial',
  ],
  ['a node with the table of kube-proxy', [PROXY_TABLE], 'nftables kube-proxy'],
  ['a node with the chain of kube-proxy', [PROXY_CHAIN], 'iptables kube-proxy'],
  [
    'a node with the chain of kube-proxy in legacy mode',
    ['ip6tables-legacy -t nat -N KUBE-SERVICES'],
    'iptables kube-proxy',
  ],
  ['a node with both, because kube-proxy has switched', [PROXY_TABLE, PROXY_CHAIN], 'nftables kube-proxy'],
  ["a node with the agent's table", [OWN_TABLE, PROXY_CHAIN], 'nftables own-rules'],
  ['a node on which the kernel has taken the sets, but no rules', [OWN_SETS], 'iptables trial'],
  ...['iptables-nft', 'iptables-legacy'].flatMap((tool) => [
    [
      `a node with rules of the agent, ${tool}`,
      [inNat(tool, [...OWN_RULES, JUMP]), PROXY_TABLE],
      'iptables own-rules',
    ] as const,
    [
      `a node with rules of the agent that have lost the jump, ${tool}`,
      [inNat(tool, OWN_RULES), PROXY_TABLE],
      'iptables own-rules',
    ] as const,
    [
      `a node with rules of v2, ${tool}`,
      [inNat(tool, olderAgentRules()), PROXY_TABLE],
      'iptables own-rules',
    ] as const,
    [
      `a node with rules of v2 without the jump, ${tool}`,
      [inNat(tool, OLDER_RULES), PROXY_TABLE],
      'nftables kube-proxy',
    ] as const,
    [
      `a node with a chain without rules and without a jump, ${tool}`,
      [inNat(tool, [CHAIN]), PROXY_TABLE],
      'nftables kube-proxy',
    ] as const,
  ]),
  ['an interrupted switch', [OWN_TABLE, OWN_CHAIN], 'iptables own-rules'],
  ['an interrupted switch beside kube-proxy', [OWN_TABLE, OWN_CHAIN, PROXY_TABLE], 'nftables own-rules'],
];

/** What chains of iptables say; undefined if nothing. */
function blindly(setUp: readonly string[]): string | undefined {
  const text = setUp.join('\n');
  const isOwn = /-A POSTROUTING .*IP-MASQ-AGENT/.test(text) || text.includes(OWN_RULES[1] ?? '');
  return isOwn ? 'own-rules' : undefined;
}

describe('--backend=auto', () => {
  for (const [node, setUp, expected] of NODES) {
    it(`takes ${expected.replace(' ', ' by ')} on ${node}, and without netlink iptables or nothing`, async () => {
      await using box = await createBox();
      await succeed(box.run('sh', ['-ec', setUp.join('\n')]));
      await using asking = await hostNetlink(box);
      if (WITH_NETLINK) {
        const { backend, by } = await choose(AUTO, boxHost(box, asking.netlink).host);
        assert.equal(`${backend} ${by}`, expected);
      }
      const blind = choose(AUTO, boxHost(box).host);
      const evidence = blindly(setUp);
      // The agent's table could be there.
      if (evidence === undefined)
        await assert.rejects(blind, { failure: 'missing', remedy: /--backend=iptables/ });
      else {
        const { backend, by, reason } = await blind;
        assert.equal(`${backend} ${by}`, `iptables ${evidence}`);
        assert.match(reason, /because netlink does not work$/);
      }
    });
  }

  for (const options of [{ mode: 'legacy' }, { chain: 'MY-CHAIN' }] as const) {
    it(`takes iptables if ${Object.keys(options)} asks for it, whatever is on the node`, async () => {
      await using box = await createBox();
      await box.run('nft', ['add', 'table', 'ip', 'kube-proxy']);
      const { backend, by, reason } = await choose({ ...AUTO, ...options }, boxHost(box).host);
      assert.deepEqual([backend, by], ['iptables', 'trial']);
      assert.match(reason, /asked for by --(?:iptables-mode=legacy|masq-chain=MY-CHAIN)/);
    });
  }

  it('runs no tool if netlink shows the jump to the chain', {
    skip: !WITH_NETLINK && 'NETLINK=off',
  }, async () => {
    await using box = await createBox();
    await box.run('sh', ['-c', inNat('iptables-nft', [...OWN_RULES, JUMP])]);
    await using asking = await hostNetlink(box);
    const { host, commands } = boxHost(box, asking.netlink);
    assert.equal((await choose(AUTO, host)).by, 'own-rules');
    assert.deepEqual(commands, []);
  });

  it('is not asked for by a flag that names the dataplane', async () => {
    await using box = await createBox();
    await box.run('nft', ['add', 'table', 'ip', 'kube-proxy']);
    const { backend, by } = await choose({ ...AUTO, backend: 'iptables' }, boxHost(box).host);
    assert.deepEqual([backend, by], ['iptables', 'flag']);
  });
});
