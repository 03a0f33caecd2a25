import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type NodeOptions, type NodeRules, readNode } from '../../../lib/foreign/read-node.ts';
import type { Answers } from '../dataplane/support.ts';
import { base, fakeHost, jump, MASQUERADE, OWN, reply, rulesOf } from './support.ts';

const NFT: NodeOptions['iptables'] = { mode: 'nft', suffix: '-nft' };
const LEGACY: NodeOptions['iptables'] = { mode: 'legacy', suffix: '-legacy' };

const LISTED = { stdout: '-P POSTROUTING ACCEPT\n-A POSTROUTING -j MASQUERADE\n' };
const VERSIONS: Answers = {
  'iptables-nft --version': { stdout: 'iptables v1.8.9 (nf_tables)' },
  'iptables-legacy --version': { stdout: 'iptables v1.8.9 (legacy)' },
};
const CHAINS = [base('IPv4', 'nat', 'POSTROUTING')];
const LEGACY_IN_USE = { '/proc/net/ip_tables_names': 'nat\n' };

async function read(
  iptables: NodeOptions['iptables'],
  answers: Answers,
  files: Readonly<Record<string, string>> = {},
): Promise<NodeRules> {
  const host = fakeHost(answers, [], files);
  return await readNode(host, { families: ['IPv4'], ownChain: OWN, iptables });
}

const where = ({ baseChains }: NodeRules) => baseChains.map((base) => base.chainText);

describe('a node', () => {
  it('is read over netlink, the chains of iptables too, and no tool is started', async () => {
    const commands: string[] = [];
    const rules = { POSTROUTING: [reply(jump(OWN)), reply(MASQUERADE)], post: [reply(MASQUERADE)] };
    const host = fakeHost({}, commands, {}, [...CHAINS, base('IPv4', 'site', 'post')], rules);
    const node = await readNode(host, { families: ['IPv4'], ownChain: OWN, iptables: NFT });
    assert.deepEqual(where(node), ['iptables (nft) nat POSTROUTING', 'nftables ip site post']);
    const found = await Promise.all(node.baseChains.map(({ name, chains }) => rulesOf(chains.get(name))));
    assert.deepEqual(
      found.map((chain) => chain.map(({ outcome }) => outcome.kind)),
      [['own', 'masquerades'], ['masquerades']],
    );
    assert.deepEqual([node.unread, commands], [[], []]);
  });

  it('without netlink lists only the chain that the agent itself reads, and says why', async () => {
    const commands: string[] = [];
    const jump = { stdout: '-P POSTROUTING ACCEPT\n-A POSTROUTING -j A\n-A POSTROUTING -j B\n' };
    const { netlink: _, ...host } = fakeHost({ 'iptables-nft': jump }, commands);
    const node = await readNode(host, { families: ['IPv4'], ownChain: OWN, iptables: NFT });
    assert.deepEqual(where(node), ['iptables (nft) nat POSTROUTING']);
    assert.deepEqual(commands, ['iptables-nft --wait 1 -t nat -S POSTROUTING']);
    assert.equal(node.unread.length, 3);
    assert.ok(node.unread.every((what) => what.endsWith('netlink does not work: --netlink=off')));
  });

  it('that knows only the legacy mode has nothing of the other to tell', async () => {
    const node = await read(LEGACY, {
      ...VERSIONS,
      'iptables-legacy': LISTED,
    });
    assert.deepEqual(where(node), ['iptables (legacy) nat POSTROUTING']);
    assert.deepEqual(node.unread, []);
  });

  it('has a table raw of the legacy mode read, but only if it is in use', async () => {
    // https://github.com/hanselime/paqet/issues/39
    const raw = { stdout: '-P PREROUTING ACCEPT\n-A PREROUTING -p tcp -m tcp --dport 443 -j NOTRACK\n' };
    const answers = {
      ...VERSIONS,
      'iptables-legacy --wait 1 -t raw -S PREROUTING': raw,
      'iptables-legacy': LISTED,
    };
    for (const mode of [LEGACY, NFT]) {
      const node = await read(mode, answers, { '/proc/net/ip_tables_names': 'raw\nnat\n' });
      assert.deepEqual(where(node), [
        'iptables (legacy) nat POSTROUTING',
        'iptables (legacy) raw PREROUTING',
      ]);
      const [rule] = await rulesOf(node.baseChains[1]?.chains.get('PREROUTING'));
      assert.equal(rule?.outcome.kind, 'untracks');
      assert.deepEqual(node.unread, []);
      assert.deepEqual(where(await read(mode, answers, LEGACY_IN_USE)), [
        'iptables (legacy) nat POSTROUTING',
      ]);
    }
  });

  it('is read over netlink where iptables-legacy, which the agent does not use, fails', async () => {
    const answers = { ...VERSIONS, 'iptables-legacy': { code: 4, stderr: 'broken' } };
    const host = fakeHost(answers, [], LEGACY_IN_USE, CHAINS);
    const node = await readNode(host, { families: ['IPv4'], ownChain: OWN, iptables: NFT });
    assert.deepEqual(where(node), ['iptables (nft) nat POSTROUTING']);
    assert.deepEqual(node.unread, ['iptables-legacy failed: broken']);
  });

  it("cannot be read where the agent's own tool fails", async () => {
    const broken = { code: 1, stderr: 'Operation not permitted' };
    const answers = { ...VERSIONS, 'iptables-legacy': broken };
    await assert.rejects(read(LEGACY, answers), { failure: 'denied', remedy: /NET_ADMIN/ });
    const { netlink: _, ...host } = fakeHost({ ...VERSIONS, 'iptables-nft': broken });
    const reading = readNode(host, { families: ['IPv4'], ownChain: OWN, iptables: NFT });
    await assert.rejects(reading, { failure: 'denied' });
  });

  it('has the table of kube-proxy left out, and says so; of the own one it says nothing', async () => {
    const commands: string[] = [];
    const chains = [
      base('IPv4', 'kube-proxy', 'nat-postrouting'),
      base('IPv6', 'kube-proxy', 'nat-postrouting'),
      base('IPv4', 'ip-masq-agent', 'postrouting'),
    ];
    const host = fakeHost({}, commands, {}, chains);
    const node = await readNode(host, { families: ['IPv4'], ownChain: OWN, iptables: undefined });
    assert.deepEqual(commands, []);
    assert.deepEqual(node, {
      baseChains: [],
      unread: [],
      skipped: [
        'nftables ip kube-proxy: skipped, because it masquerades only what kube-proxy has marked, and pods that reach themselves through a Service',
      ],
      samePriority: [],
    });
  });

  for (const [what, iptables, priority, found] of [
    ['at the priority of iptables', NFT, 100, ['IPv4: nftables ip kube-proxy nat-postrouting']],
    ['at another priority', NFT, 90, []],
    ['beside an agent that uses nftables', undefined, 100, []],
  ] as const)
    it(`has a chain of kube-proxy that may run behind the agent's rules: ${what}`, async () => {
      const chains = [base('IPv4', 'kube-proxy', 'nat-postrouting', priority)];
      const host = fakeHost({}, [], {}, chains);
      const { samePriority } = await readNode(host, { families: ['IPv4'], ownChain: OWN, iptables });
      assert.deepEqual(
        samePriority.map((one) => `${one.family}: ${one.chainText}`),
        found,
      );
    });
});
