import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createNode, iptables, type NodeLab } from './support.ts';

const MODES = ['nft', 'legacy'] as const;

describe('cleanup', () => {
  it('says beside a running agent what it would remove', async () => {
    await using node = await createNode();
    const agent = node.start('--resync-interval=1h');
    await agent.logged(/"reason":"start"/);
    const before = await node.kernel();
    const json = JSON.parse((await node.agent('cleanup', '--dry-run', '--output=json')).stdout);
    assert.deepEqual([json.ok, json.dryRun, json.places[0].rules.length], [true, true, 6]);
    assert.equal(await node.kernel(), before);
    await agent.stop();
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
    assert.match((await node.agent('cleanup', '--force')).stdout, /^IPv4, nftables: removed 12 rules$/m);
    agent.kill('SIGTERM');
    await agent.ended;
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
});

/** The rules of the agent in a mode: an agent itself would remove those in the other. One that runs may hold the lock. */
async function makeRules(node: NodeLab, mode: string, chain = 'IP-MASQ-AGENT'): Promise<void> {
  const { stdout } = await node.agent('render', '--enable-ipv6', `--masq-chain=${chain}`);
  for (const command of [`iptables-${mode}-restore`, `ip6tables-${mode}-restore`])
    assert.equal((await node.box.run(command, ['--noflush', '--wait'], { input: stdout })).code, 0);
}

async function makeTables(node: NodeLab): Promise<void> {
  const { stdout } = await node.agent('render', '--format=nftables', '--enable-ipv6');
  assert.equal((await node.box.run('nft', ['-f', '-'], { input: stdout })).code, 0);
}

function withoutCounts(line: string): string {
  return line.replace(/ -c \d+ \d+/, '');
}
