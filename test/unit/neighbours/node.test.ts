import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { Host } from '../../../lib/dataplane/host.ts';
import { type NodeOptions, type NodeRules, readNode } from '../../../lib/neighbours/read-node.ts';
import { type Answers, base, fakeHost, listing, nftables, OWN, rule } from './support.ts';

const NFT: NodeOptions['iptables'] = { mode: 'nft', suffix: '-nft' };
const LEGACY: NodeOptions['iptables'] = { mode: 'legacy', suffix: '-legacy' };

const LISTED = { stdout: '-P POSTROUTING ACCEPT\n-A POSTROUTING -j MASQUERADE\n' };
const UNSUPPORTED = { code: 1, stderr: 'iptables: Failed to initialize nft: Protocol not supported' };
const VERSIONS: Answers = {
  'iptables-nft --version': { stdout: 'iptables v1.8.9 (nf_tables)' },
  'iptables-legacy --version': { stdout: 'iptables v1.8.9 (legacy)' },
};
const CHAINS = nftables(base('ip', 'nat', 'POSTROUTING'));
const LEGACY_IN_USE = { '/proc/net/ip_tables_names': 'nat\n' };

async function read(
  iptables: NodeOptions['iptables'],
  answers: Answers,
  files: Readonly<Record<string, string>> = {},
): Promise<NodeRules> {
  return await readNode(fakeHost(answers, [], files), { families: ['IPv4'], ownChain: OWN, iptables });
}

const where = ({ baseChains }: NodeRules) => baseChains.map((base) => base.where);

describe('a node', () => {
  it('without nft is read by iptables, and says what it lacks', async () => {
    const node = await read(NFT, { 'iptables-nft': LISTED });
    assert.deepEqual(where(node), ['iptables (nft) nat POSTROUTING']);
    assert.deepEqual(node.unread, ['nft is not installed']);
  });

  it('without iptables is read by nft', async () => {
    const node = await read(undefined, {
      'nft -j list chains': CHAINS,
      [listing('chain', 'ip', 'nat', 'POSTROUTING')]: nftables(
        rule('POSTROUTING', { jump: { target: OWN } }),
        rule('POSTROUTING', { masquerade: null }),
      ),
    });
    assert.deepEqual(where(node), ['nftables ip nat POSTROUTING']);
    assert.deepEqual(
      node.baseChains.flatMap(({ chains }) => [...chains.values()].flat().map(({ outcome }) => outcome.kind)),
      ['own', 'masquerades'],
    );
    assert.deepEqual(node.unread, []);
  });

  it('that knows only the legacy mode has nothing of the other to tell', async () => {
    const node = await read(LEGACY, {
      ...VERSIONS,
      'iptables-nft': UNSUPPORTED,
      nft: { code: 1, stderr: 'netlink: Error: cache initialization failed: Operation not supported' },
      'iptables-legacy': LISTED,
    });
    assert.deepEqual(where(node), ['iptables (legacy) nat POSTROUTING']);
    assert.deepEqual(node.unread, []);
  });

  for (const [name, own, answers, unread] of [
    [
      'nft',
      LEGACY,
      { nft: { code: 1, stderr: 'Error: broken' } },
      'nft -j list chains failed: Error: broken',
    ],
    [
      'iptables-nft',
      LEGACY,
      { 'nft -j list chains': CHAINS, 'iptables-nft': { code: 4, stderr: 'broken' } },
      'iptables-nft failed: broken',
    ],
    [
      'iptables-legacy',
      NFT,
      { 'nft -j list chains': CHAINS, 'iptables-legacy': { code: 4, stderr: 'broken' } },
      'iptables-legacy failed: broken',
    ],
  ] as const) {
    it(`is read by what the agent uses where ${name} fails`, async () => {
      const works = { 'iptables-legacy': LISTED, 'iptables-nft': LISTED, nft: nftables() };
      const node = await read(own, { ...VERSIONS, ...works, ...answers }, LEGACY_IN_USE);
      assert.ok(where(node).includes(`iptables (${own.mode}) nat POSTROUTING`));
      assert.deepEqual(node.unread, [unread]);
    });
  }

  for (const own of [NFT, LEGACY, undefined]) {
    it(`cannot be read where the agent's own tool fails: ${own?.mode ?? 'nft'}`, async () => {
      const broken = { code: 1, stderr: 'Operation not permitted' };
      const answers = { ...VERSIONS, nft: broken, 'iptables-nft': broken, 'iptables-legacy': broken };
      await assert.rejects(read(own, answers), { failure: 'denied', remedy: /NET_ADMIN/ });
    });
  }

  it('says which base chain nft cannot read, and reads the others', async () => {
    const node = await read(LEGACY, {
      'iptables-legacy': LISTED,
      'nft -j list chains': nftables(base('ip', 'maps', 'pr'), base('inet', 'site', 'post')),
      [listing('chain', 'ip', 'maps', 'pr')]: { code: null, stderr: 'nft was ended by SIGSEGV' },
      nft: nftables(),
    });
    assert.ok(where(node).includes('nftables inet site post'));
    assert.deepEqual(node.unread, [
      'nftables ip maps pr: nft -j list chain ip maps pr failed: nft was ended by SIGSEGV',
    ]);
  });

  it('has the table of kube-proxy left out, and says so; of the own one it says nothing', async () => {
    const commands: string[] = [];
    const chains = nftables(
      base('ip', 'kube-proxy', 'nat-postrouting'),
      base('ip6', 'kube-proxy', 'nat-postrouting'),
      base('ip', 'ip-masq-agent', 'postrouting'),
    );
    const host = fakeHost({ nft: chains }, commands);
    const node = await readNode(host, { families: ['IPv4'], ownChain: OWN, iptables: undefined });
    assert.deepEqual(commands, ['nft -j list chains']);
    assert.deepEqual(node, {
      baseChains: [],
      unread: [],
      skipped: [
        'nftables ip kube-proxy: skipped, because it masquerades only packets that kube-proxy itself has marked',
      ],
      rivals: [],
    });
  });

  for (const [what, iptables, priority, found] of [
    ['at the priority of iptables', NFT, 100, ['IPv4: nftables ip kube-proxy nat-postrouting']],
    ['at another priority', NFT, 90, []],
    ['beside an agent that uses nftables', undefined, 100, []],
  ] as const)
    it(`has a chain of kube-proxy that may run behind the agent's rules: ${what}`, async () => {
      const chains = nftables(base('ip', 'kube-proxy', 'nat-postrouting', priority));
      const { rivals } = await read(iptables, { 'nft -j list chains': chains, 'iptables-nft': LISTED });
      assert.deepEqual(
        rivals.map((one) => `${one.family}: ${one.where}`),
        found,
      );
    });

  it('is asked by one process after the other', async () => {
    let running = 0;
    let most = 0;
    const answers = { ...VERSIONS, 'iptables-nft': LISTED, 'iptables-legacy': LISTED, nft: CHAINS };
    const host = fakeHost(answers, [], LEGACY_IN_USE);
    const counting: Host = {
      ...host,
      run: async (file, args) => {
        running += 1;
        most = Math.max(most, running);
        await setTimeout(1);
        running -= 1;
        return await host.run(file, args);
      },
    };
    await readNode(counting, { families: ['IPv4', 'IPv6'], ownChain: OWN, iptables: LEGACY });
    assert.equal(most, 1);
  });
});
