import assert from 'node:assert/strict';
import { mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { BINARY, createNode, iptables, type NodeLab } from './support.ts';

const MODES = ['nft', 'legacy'] as const;

describe('cleanup', () => {
  it('removes what is ours of both families, in both modes and in nftables, says so, and touches nothing else', async () => {
    await using node = await createNode();
    await foreignRules(node);
    const before = await node.kernel();
    for (const mode of MODES) await makeRules(node, mode);
    await makeTables(node);
    const { code, stdout, stderr } = await node.agent('cleanup');
    assert.equal(await node.kernel(), before);
    assert.deepEqual([code, stderr], [0, '']);
    assert.deepEqual(
      stdout
        .split('\n')
        .filter((line) => /^\S/.test(line))
        .map(versionless),
      [
        'IPv4, iptables X (nft): removed 6 rules',
        'IPv6, iptables X (nft): removed 3 rules',
        'IPv4, iptables X (legacy): removed 6 rules',
        'IPv6, iptables X (legacy): removed 3 rules',
        'IPv4, nftables X: removed 12 rules',
        'IPv6, nftables X: removed 9 rules',
      ],
    );
    assert.match(stdout, /^ {2}-A POSTROUTING .* -j IP-MASQ-AGENT$/m);
    assert.match(stdout, /^ {2}-A IP-MASQ-AGENT -d 172\.16\.0\.0\/12 .*RFC 1918.*$/m);
  });

  it('only says what it would remove, in text and JSON, also beside a running agent', async () => {
    await using node = await createNode();
    await node.agent('--once');
    const before = await node.kernel();
    const { code, stdout } = await node.agent('cleanup', '--dry-run');
    assert.deepEqual([code, await node.kernel()], [0, before]);
    assert.match(versionless(stdout), /^IPv4, iptables X \(nft\): would remove 6 rules\n {2}-A POSTROUTING /);
    const agent = node.start('--resync-interval=1h');
    await agent.logged(/using iptables/);
    const json = JSON.parse((await node.agent('cleanup', '--dry-run', '--output=json')).stdout);
    assert.deepEqual([json.ok, json.dryRun, json.places[0].rules.length], [true, true, 6]);
    assert.equal(await node.kernel(), before);
    await agent.stop();
  });

  it('succeeds where there is nothing, and writes nothing', async () => {
    await using node = await createNode();
    await foreignRules(node);
    const before = await node.kernel();
    const { code, stdout } = await node.agent('cleanup');
    assert.equal(await node.kernel(), before);
    assert.equal(code, 0);
    assert.match(
      versionless(stdout),
      /^IPv4, iptables X \(nft\): no rules of the agent\nIPv6, iptables X \(nft\): no rules of the agent\n/,
    );
  });

  it('leaves the chain of another name alone', async () => {
    await using node = await createNode();
    await node.agent('--once', '--masq-chain=OTHER');
    const before = await node.kernel();
    assert.equal((await node.agent('cleanup')).code, 0);
    assert.equal(await node.kernel(), before);
    assert.match((await node.agent('cleanup', '--masq-chain=OTHER')).stdout, /removed 6 rules/);
    assert.doesNotMatch(await node.kernel(), /OTHER/);
  });

  for (const mode of MODES) {
    it(`leaves an empty chain, says why, and ends with exit code 1 where a foreign rule leads into our chain, ${mode}`, async () => {
      await using node = await createNode();
      await node.agent('--once', `--iptables-mode=${mode}`);
      await iptables(node, mode, '-N', 'THEIRS');
      await iptables(node, mode, '-A', 'THEIRS', '-j', 'IP-MASQ-AGENT');
      const rule = mode === 'nft' ? '-A THEIRS -j IP-MASQ-AGENT' : 'a rule in another chain';
      for (const removed of ['removed 6 rules', 'no rules of the agent']) {
        const { code, stdout, stderr } = await node.agent('cleanup');
        assert.equal(code, 1);
        assert.ok(stdout.includes(`(${mode}): ${removed}\n`), stdout);
        assert.match(
          stderr,
          new RegExp(`^ip-masq-agent: IPv4, .*: chain IP-MASQ-AGENT stays.* foreign rule .*: ${rule};`, 'm'),
        );
        assert.deepEqual((await node.kernel()).match(/^.*IP-MASQ-AGENT.*$/gm)?.map(withoutCounts), [
          '-N IP-MASQ-AGENT',
          '-A THEIRS -j IP-MASQ-AGENT',
        ]);
      }
      await iptables(node, mode, '-F', 'THEIRS');
      assert.equal((await node.agent('cleanup')).code, 0);
      assert.doesNotMatch(await node.kernel(), /IP-MASQ-AGENT/);
    });
  }

  it('with --force, spares the tables that an agent with another chain keeps', async () => {
    await using node = await createNode();
    const agent = node.start('--backend=nftables', '--resync-interval=1h');
    await agent.logged(/"reason":"start"/);
    const table = async () =>
      (await node.box.run('nft', ['-s', 'list', 'table', 'ip', 'ip-masq-agent'])).stdout;
    const before = await table();
    await makeRules(node, 'nft', 'OTHER');
    const { code, stdout, stderr } = await node.agent('cleanup', '--masq-chain=OTHER', '--force');
    assert.deepEqual([code, await table()], [0, before]);
    assert.match(stdout, /^IPv4, iptables [\d.]+ \(nft\): removed 6 rules$/m);
    assert.doesNotMatch(stdout, /IPv4, nftables/);
    assert.match(stderr, /^ip-masq-agent: .*--masq-chain=IP-MASQ-AGENT: its tables of nftables stay;/m);
    assert.match(
      (await node.agent('cleanup', '--force')).stdout,
      /^IPv4, nftables [\d.]+: removed 12 rules$/m,
    );
    agent.kill('SIGTERM');
    await agent.ended;
  });

  it('goes on to the other family where one fails, and says what became of each', async () => {
    await using node = await createNode();
    await node.agent('--once', '--enable-ipv6');
    await iptables(node, 'nft', '-N', 'THEIRS');
    await iptables(node, 'nft', '-A', 'THEIRS', '-j', 'IP-MASQ-AGENT');
    const { code, stdout, stderr } = await node.agent('cleanup');
    assert.equal(code, 1);
    assert.match(stderr, /^ip-masq-agent: IPv4, iptables /m);
    assert.match(stdout, /^IPv6, iptables [\d.]+ \(nft\): removed 3 rules$/m);
  });

  it('removes an empty chain without a jump too, and tells where it could not look', async () => {
    await using node = await createNode();
    await iptables(node, 'nft', '-N', 'IP-MASQ-AGENT');
    const bin = join(node.dir, 'bin');
    await mkdir(bin);
    for (const tool of ['iptables-nft', 'iptables-nft-restore'])
      await symlink(`/usr/sbin/${tool}`, join(bin, tool));
    const { code, stdout } = await node.box.run('env', [`PATH=${bin}`, BINARY, 'cleanup', '--netlink=off']);
    assert.equal(code, 0);
    assert.equal(
      versionless(stdout),
      'IPv4, iptables X (nft): removed an empty chain\nIPv6, iptables X (nft): not looked at: ip6tables-nft is not installed\n',
    );
    assert.doesNotMatch(await node.kernel(), /IP-MASQ-AGENT/);
  });

  it('is what --cleanup-on-exit does: rules that are left in the other mode go too', async () => {
    await using node = await createNode();
    const before = await node.kernel();
    const agent = node.start('--iptables-mode=nft', '--cleanup-on-exit', '--resync-interval=1h');
    await agent.logged(/"family":"IPv4","reason":"start"/);
    await makeRules(node, 'legacy');
    await makeTables(node);
    await agent.stop();
    assert.equal(await node.kernel(), before);
    for (const where of [
      'IPv4, iptables [\\d.]+ \\(nft\\)',
      'IPv4, iptables [\\d.]+ \\(legacy\\)',
      'IPv6, iptables [\\d.]+ \\(legacy\\)',
    ])
      assert.match(agent.log(), new RegExp(`${where}: removed \\d+ rules`));
  });

  it('ends with exit code 1 where neither iptables nor nft is installed', async () => {
    await using node = await createNode();
    const { code, stderr } = await node.box.run('env', ['PATH=/nowhere', BINARY, 'cleanup']);
    assert.equal(code, 1);
    assert.match(stderr, /^ip-masq-agent: neither iptables nor nft is installed; install /);
  });
});

/** The rules of the agent in a mode: an agent itself would remove those in the other. */
async function makeRules(node: NodeLab, mode: string, chain = 'IP-MASQ-AGENT'): Promise<void> {
  const { stdout } = await node.agent('render', '--enable-ipv6', `--masq-chain=${chain}`);
  for (const command of [`iptables-${mode}-restore`, `ip6tables-${mode}-restore`])
    assert.equal((await node.box.run(command, ['--noflush'], { input: stdout })).code, 0);
}

async function makeTables(node: NodeLab): Promise<void> {
  const { stdout } = await node.agent('render', '--format=nftables', '--enable-ipv6');
  assert.equal((await node.box.run('nft', ['-f', '-'], { input: stdout })).code, 0);
}

/** Rules of others, some of which look much like ours. */
async function foreignRules(node: NodeLab): Promise<void> {
  for (const mode of MODES) {
    for (const rule of [
      ['-N', 'IP-MASQ'],
      ['-A', 'IP-MASQ', '-m', 'comment', '--comment', 'ip-masq-agent: mine', '-j', 'RETURN'],
      ['-A', 'POSTROUTING', '-m', 'comment', '--comment', 'to IP-MASQ-AGENT', '-j', 'IP-MASQ'],
      ['-A', 'POSTROUTING', '-s', '172.17.0.0/16', '-j', 'MASQUERADE'],
    ])
      await iptables(node, mode, ...rule);
  }
}

function withoutCounts(line: string): string {
  return line.replace(/ -c \d+ \d+/, '');
}

function versionless(text: string): string {
  return text.replace(/(iptables|nftables) \d[\d.]*/g, '$1 X');
}
