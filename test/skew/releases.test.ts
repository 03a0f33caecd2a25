import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { createNode, type NodeLab } from '../e2e/support.ts';
import { comparable } from '../lab/kernel-state.ts';
import { oldNft, RELEASES, type Release, withoutTools } from '../lab/releases.ts';

/** All kinds of rules. Some ranges end at the highest address. */
const CONFIG = {
  nonMasqueradeCIDRs: [
    ...['10.0.0.0/8', '172.16.0.0/12', '224.0.0.0/4', '255.255.255.255/32'],
    ...['fd00::/8', 'ff00::/8', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128'],
  ],
  masqueradeCIDRs: ['10.1.0.0/16', 'fd01::/16'],
  masqueradeFromCIDRs: ['10.244.0.0/16', '240.0.0.0/4', 'fd44::/16', 'fe00::/7'],
  masqueradeAddresses: [
    { destination: '198.51.100.0/24', address: '192.0.2.0/25' },
    { destination: '2001:db8:1::/48', address: '2001:db8::/64' },
  ],
};
const ADDRESSES = ['192.0.2.1/32', '2001:db8::1/128'];
const FLAGS = [
  ...['--backend=nftables', '--enable-ipv6', '--invalid-packets=drop'],
  ...['--random-fully=tcp', '--to-ports=1024-2000,3000-4000'],
];

/** Ranges that the sets hold, in the words of every nft. 0.9.8 has other words for an open end of IPv6. */
const RANGES = [
  ...'10.0.0.0/16 10.2.0.0-10.255.255.255 169.254.0.0/16 172.16.0.0/12 224.0.0.0/4'.split(' '),
  ...'fd00::/16 fd02::-fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff fe80::/10 10.244.0.0/16 fd44::/16'.split(' '),
];

for (const release of RELEASES) {
  describe(`nft of ${release}`, { concurrency: true, skip: withoutTools(release) }, () => {
    it("shows the agent's addresses and comments", async () => {
      await using node = await syncedNode();
      const listing = await printed(node, release, 'list', 'ruleset');
      for (const range of RANGES)
        assert.match(listing, new RegExp(`[ \\t]${range.replaceAll('.', '\\.')}[ ,]`));
      for (const [, body = ''] of listing.matchAll(/^\t?(?:table|set|chain) \S.*\{\n((?:\t+.*\n)*)/gm))
        assert.match(body, /^\t+comment "ip-masq-agent: [^"]+"$/m);
      JSON.parse(await printed(node, release, '-j', 'list', 'ruleset'));
    });

    it('saves and restores tables of which one sync makes what it makes of an empty kernel, and the next nothing', async () => {
      await using node = await syncedNode();
      const wanted = await tables(node);
      const saved = await printed(node, release, 'list', 'ruleset');
      await printed(node, release, 'flush', 'ruleset');
      await fed(node, release, saved);
      await sync(node);
      assert.equal(await tables(node), wanted);
      for (const other of RELEASES.filter((one) => !withoutTools(one)))
        await printed(node, other, 'list', 'ruleset');
      const { code, stdout, stderr } = await node.agent('diff', ...FLAGS);
      assert.equal(code, 0, `${stdout}${stderr}`);
    });

    it('loads what render prints, which a sync takes, or mends if that nft adds what kills an older one', async () => {
      await using node = await nodeWith();
      const { stdout } = await node.agent('render', '--format=nftables', ...FLAGS);
      await fed(node, release, stdout);
      await sync(node);
      assert.equal((await node.agent('diff', ...FLAGS)).code, 0);
    });
  });
}

/** A node that has the addresses and the config, and no rules. */
async function nodeWith(): Promise<NodeLab> {
  const node = await createNode();
  for (const address of ADDRESSES) await node.run('ip', 'address', 'add', address, 'dev', 'lo');
  await writeFile(join(node.configDir, 'ip-masq-a'), JSON.stringify(CONFIG));
  return node;
}

async function syncedNode(): Promise<NodeLab> {
  const node = await nodeWith();
  await sync(node);
  return node;
}

async function sync(node: NodeLab): Promise<void> {
  const { code, signal, stderr } = await node.agent('--once', ...FLAGS);
  assert.equal(signal ?? code, 0, stderr);
}

/** The agent's tables of both families, as the machine's nft lists them, without counts. */
async function tables(node: NodeLab): Promise<string> {
  const [ip, ip6] = [
    await node.nft('list table ip ip-masq-agent'),
    await node.nft('list table ip6 ip-masq-agent'),
  ];
  return `${comparable(ip)}\n${comparable(ip6)}`;
}

/** What nft of the release prints, in answer to these arguments; it must succeed. */
function printed(node: NodeLab, release: Release, ...args: readonly string[]): Promise<string> {
  return node.run(oldNft(release), ...args);
}

async function fed(node: NodeLab, release: Release, script: string): Promise<void> {
  const { code, signal, stderr } = await node.box.run(oldNft(release), ['-f', '-'], { input: script });
  assert.equal(signal ?? code, 0, stderr);
}
