import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { Host } from '../../../lib/dataplane/host.ts';
import type { Requests } from '../../../lib/dataplane/netlink.ts';
import { MOST_LISTED } from '../../../lib/foreign/budget.ts';
import { UNKNOWN_SIZE } from '../../../lib/foreign/read-nftables.ts';
import { type NodeOptions, type NodeRules, readNode } from '../../../lib/foreign/read-node.ts';
import type { NatChain } from '../../../lib/netlink/replies.ts';
import type { Answers } from '../dataplane/support.ts';
import { base, fakeHost, listing, nftables, OWN, rule } from './support.ts';

const NFT: NodeOptions['iptables'] = { mode: 'nft', suffix: '-nft' };
const LEGACY: NodeOptions['iptables'] = { mode: 'legacy', suffix: '-legacy' };

const LISTED = { stdout: '-P POSTROUTING ACCEPT\n-A POSTROUTING -j MASQUERADE\n' };
const UNSUPPORTED = { code: 1, stderr: 'iptables: Failed to initialize nft: Protocol not supported' };
const VERSIONS: Answers = {
  'iptables-nft --version': { stdout: 'iptables v1.8.9 (nf_tables)' },
  'iptables-legacy --version': { stdout: 'iptables v1.8.9 (legacy)' },
};
const CHAINS = [base('ip', 'nat', 'POSTROUTING')];
const LEGACY_IN_USE = { '/proc/net/ip_tables_names': 'nat\n' };

async function read(
  iptables: NodeOptions['iptables'],
  answers: Answers,
  chains: readonly NatChain[] = [],
  size?: Requests['size'],
  files: Readonly<Record<string, string>> = {},
): Promise<NodeRules> {
  const host = fakeHost(answers, [], files, chains, size);
  return await readNode(host, { families: ['IPv4'], ownChain: OWN, iptables });
}

const where = ({ baseChains }: NodeRules) => baseChains.map((base) => base.chainText);

describe('a node', () => {
  it('without nft is read by iptables, and says what it lacks', async () => {
    const node = await read(NFT, { 'iptables-nft': LISTED }, [...CHAINS, base('ip', 'site', 'post')]);
    assert.deepEqual(where(node), ['iptables (nft) nat POSTROUTING', 'nftables ip site post']);
    assert.deepEqual(node.unread, ['nftables ip site post: nft is not installed']);
  });

  it('without netlink lists only the chain that the agent itself reads, and says so once', async () => {
    const commands: string[] = [];
    const jump = { stdout: '-P POSTROUTING ACCEPT\n-A POSTROUTING -j A\n-A POSTROUTING -j B\n' };
    const { netlink: _, ...host } = fakeHost({ 'iptables-nft': jump }, commands);
    const node = await readNode(host, { families: ['IPv4'], ownChain: OWN, iptables: NFT });
    assert.deepEqual(where(node), ['iptables (nft) nat POSTROUTING']);
    assert.deepEqual(commands, ['iptables-nft --wait 1 -t nat -S POSTROUTING']);
    assert.equal(node.unread.length, 2);
    assert.ok(node.unread.every((what) => what.endsWith(UNKNOWN_SIZE)));
  });

  for (const [what, iptables, limits, said] of [
    ['iptables', NFT, MOST_LISTED.iptables, /nat POSTROUTING: chain BIG has more than \d+ rules$/],
    ['nft', undefined, MOST_LISTED.nft, /nat POSTROUTING: chain BIG has more than \d+ rules$/],
  ] as const)
    it(`has a chain left out that ${what} could not list in little memory, and no other`, async () => {
      const sizes: Readonly<Record<string, number>> = { BIG: limits.rules + 1, SMALL: limits.rules };
      const list = (name: string, ...to: readonly string[]) => ({
        [`iptables-nft --wait 1 -t nat -S ${name}`]: {
          stdout: [`-N ${name}`, ...to.map((target) => `-A ${name} -j ${target}`), ''].join('\n'),
        },
        [listing('chain', 'ip', 'nat', name)]: nftables(
          ...to.map((target) => rule(name, { jump: { target } })),
        ),
      });
      const answers = { ...list('POSTROUTING', 'BIG', 'SMALL'), ...list('SMALL') };
      const node = await read(iptables, answers, CHAINS, async ({ chain }) => ({
        rules: sizes[chain] ?? 0,
        elements: 0,
      }));
      assert.deepEqual([...(node.baseChains[0]?.chains.keys() ?? [])], ['POSTROUTING', 'SMALL']);
      assert.equal(node.unread.length, 1);
      assert.match(node.unread[0] ?? '', said);
    });

  it('has a table of nftables left out whose sets nft could not fetch in little memory', async () => {
    const chains = [base('ip', 'site', 'post')];
    const { elements } = MOST_LISTED.nft;
    const size = async () => ({ rules: 1, elements: elements + 1 });
    const node = await read(undefined, {}, chains, size);
    assert.deepEqual(node.unread, [
      `nftables ip site post: the sets of table site have more than ${elements} elements`,
    ]);
  });

  it('without iptables is read by nft', async () => {
    const answers = {
      [listing('chain', 'ip', 'nat', 'POSTROUTING')]: nftables(
        rule('POSTROUTING', { jump: { target: OWN } }),
        rule('POSTROUTING', { masquerade: null }),
      ),
    };
    const node = await read(undefined, answers, CHAINS);
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
      'iptables-legacy': LISTED,
    });
    assert.deepEqual(where(node), ['iptables (legacy) nat POSTROUTING']);
    assert.deepEqual(node.unread, []);
  });

  for (const [name, own, answers, unread] of [
    [
      'iptables-nft',
      LEGACY,
      { 'iptables-nft': { code: 4, stderr: 'broken' } },
      'iptables-nft failed: broken',
    ],
    [
      'iptables-legacy',
      NFT,
      { 'iptables-legacy': { code: 4, stderr: 'broken' } },
      'iptables-legacy failed: broken',
    ],
  ] as const) {
    it(`is read by what the agent uses where ${name} fails`, async () => {
      const works = { 'iptables-legacy': LISTED, 'iptables-nft': LISTED, nft: nftables() };
      const node = await read(own, { ...VERSIONS, ...works, ...answers }, CHAINS, undefined, LEGACY_IN_USE);
      assert.ok(where(node).includes(`iptables (${own.mode}) nat POSTROUTING`));
      assert.deepEqual(node.unread, [unread]);
    });
  }

  for (const own of [NFT, LEGACY]) {
    it(`cannot be read where the agent's own tool fails: ${own.mode}`, async () => {
      const broken = { code: 1, stderr: 'Operation not permitted' };
      const answers = { ...VERSIONS, nft: broken, 'iptables-nft': broken, 'iptables-legacy': broken };
      await assert.rejects(read(own, answers, CHAINS), { failure: 'denied', remedy: /NET_ADMIN/ });
    });
  }

  it('says which base chain nft cannot read, and reads the others', async () => {
    const answers = {
      'iptables-legacy': LISTED,
      [listing('chain', 'ip', 'maps', 'pr')]: { code: null, stderr: 'nft was ended by SIGSEGV' },
      nft: nftables(),
    };
    const node = await read(LEGACY, answers, [base('ip', 'maps', 'pr'), base('inet', 'site', 'post')]);
    assert.ok(where(node).includes('nftables inet site post'));
    assert.deepEqual(node.unread, [
      'nftables ip maps pr: nft -j list chain ip maps pr failed: nft was ended by SIGSEGV',
    ]);
  });

  it('has the table of kube-proxy left out, and says so; of the own one it says nothing', async () => {
    const commands: string[] = [];
    const chains = [
      base('ip', 'kube-proxy', 'nat-postrouting'),
      base('ip6', 'kube-proxy', 'nat-postrouting'),
      base('ip', 'ip-masq-agent', 'postrouting'),
    ];
    const host = fakeHost({ nft: nftables() }, commands, {}, chains);
    const node = await readNode(host, { families: ['IPv4'], ownChain: OWN, iptables: undefined });
    assert.deepEqual(commands, []);
    assert.deepEqual(node, {
      baseChains: [],
      unread: [],
      skipped: [
        'nftables ip kube-proxy: skipped, because it masquerades only packets that kube-proxy itself has marked',
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
      const chains = [base('ip', 'kube-proxy', 'nat-postrouting', priority)];
      const { samePriority } = await read(iptables, { 'iptables-nft': LISTED }, chains);
      assert.deepEqual(
        samePriority.map((one) => `${one.family}: ${one.chainText}`),
        found,
      );
    });

  it('is asked by one process after the other', async () => {
    let running = 0;
    let most = 0;
    const answers = { ...VERSIONS, 'iptables-nft': LISTED, 'iptables-legacy': LISTED, nft: nftables() };
    const host = fakeHost(answers, [], LEGACY_IN_USE, CHAINS);
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
