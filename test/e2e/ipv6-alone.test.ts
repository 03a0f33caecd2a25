import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { createNetwork, NODE, POD } from '../lab/network.ts';
import { DATAPLANES } from '../packets/support.ts';
import { createNode, eventually, inside, type NodeLab } from './support.ts';

const ALONE = ['--enable-ipv4=false', '--enable-ipv6'];
const READY =
  "fetch('http://[::1]:9614/readyz?verbose').then(async (page) => console.log(page.status, await page.text()), () => {})";

describe('the agent with --enable-ipv4=false', () => {
  for (const { name, flags } of DATAPLANES)
    it(`keeps only IPv6 in ${name}, removes what a run with both has left, and packets show it`, async () => {
      await using node = await createNode();
      await using network = await createNetwork(node.box);
      const sources = async () => {
        const seen = await network.sourcesSeen(['8.8.8.8', '2600::1', 'fd12::1']);
        return seen.map(({ address }) => address);
      };
      const configFile = join(node.configDir, 'ip-masq-x');
      await writeFile(configFile, inside('10.0.0.0/8', 'fd00::/8'));
      assert.equal((await node.agent('--once', '--enable-ipv6', ...flags)).code, 0);
      assert.deepEqual(await sources(), [NODE.IPv4, NODE.IPv6, POD.IPv6]);

      await writeFile(configFile, inside('fd00::/8'));
      const { code, stderr } = await node.agent('--once', ...ALONE, ...flags);
      assert.equal(code, 0, stderr);
      assert.match(stderr, /no longer in use: IPv4, \S+.*: removed \d+ rules/);
      assert.deepEqual(await sources(), [POD.IPv4, NODE.IPv6, POD.IPv6]);
      assert.doesNotMatch(await ipv4Rules(node), /masq/i);
      assert.equal((await node.agent('diff', ...ALONE, ...flags)).code, 0);

      const live = await node.agent(
        'explain',
        '--live',
        ...ALONE,
        ...flags,
        '10.0.0.1',
        '2600::1',
        'fd12::1',
      );
      assert.equal(live.code, 0, live.stdout);
      assert.match(
        live.stdout,
        /^10\.0\.0\.1 is not masqueraded by the agent: IPv4 is not enabled .*\n {2}kernel agrees: it has no rules/m,
      );
    });

  it('runs on a node without any IPv4 address, and commands beside it know its families', async () => {
    await using node = await createNode();
    await node.run('ip', '-4', 'address', 'flush', 'dev', 'lo');
    await writeFile(join(node.configDir, 'ip-masq-x'), inside('fd00::/8'));
    const agent = node.start(...ALONE, '--metrics-bind-address=[::1]:9614');
    const ready = () => node.run(process.execPath, '-e', READY);
    await eventually(
      async () => (await ready()).startsWith('200 '),
      () => `the agent to be ready: ${agent.log()}`,
    );
    assert.doesNotMatch(await ready(), /IPv4/);
    const { code, stdout, stderr } = await node.agent('diff');
    assert.equal(code, 0, stdout);
    assert.match(stderr, /flags of the running agent, .*: --enable-ipv6=true --enable-ipv4=false/);
    assert.match((await node.agent('explain', '--live', '10.0.0.1')).stdout, /IPv4 is not enabled/);
    await agent.stop();
  });
});

/** All rules of IPv4, however they are written. */
async function ipv4Rules(node: NodeLab): Promise<string> {
  const listings = [
    await node.run('iptables-nft', '-t', 'nat', '-S'),
    await node.run('iptables-legacy', '-t', 'nat', '-S'),
    await node.run('nft', 'list', 'ruleset', 'ip'),
  ];
  return listings.join('\n');
}
