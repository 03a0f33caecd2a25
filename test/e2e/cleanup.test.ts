import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createNode, type NodeLab } from './support.ts';

describe('cleanup', () => {
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
    assert.match(stdout, /^IPv4, iptables [\d.]+ \(nft\): removed 7 rules$/m);
    assert.doesNotMatch(stdout, /IPv4, nftables/);
    assert.match(stderr, /^ip-masq-agent: .*--masq-chain=IP-MASQ-AGENT: its tables of nftables stay;/m);
    assert.match((await node.agent('cleanup', '--force')).stdout, /^IPv4, nftables: removed 13 rules$/m);
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
