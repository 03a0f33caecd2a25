import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { olderAgentRules } from '../lab/older-agent.ts';
import type { ProjectedVolume } from '../lab/volume.ts';
import { createNode, eventually, inside, jsonLines, type RunningAgent } from './support.ts';

describe('rules of another agent in a chain of the same name', () => {
  for (const [flag, mode] of [
    ['--iptables-mode=nft', 'legacy'],
    ['--iptables-mode=legacy', 'nft'],
    ['--backend=nftables', 'nft'],
  ] as const) {
    it(`are removed once, and if they come back they stay, which doctor says: ${mode} beside ${flag}`, async () => {
      await using node = await createNode();
      const volume = await node.volume({ 'ip-masq-x': inside('10.1.0.0/16') });
      const written = () => node.restore(`iptables-${mode}-restore`, ...olderAgentRules());
      await written();
      const agent = node.start('--resync-interval=1h', '--cleanup-on-exit', flag);
      const listed = async () =>
        (await node.box.run(`iptables-${mode}`, ['-t', 'nat', '-S', 'IP-MASQ-AGENT'])).stdout;
      const change = changing(agent, volume);
      await agent.logged(/no longer in use: IPv4, iptables [\d.]+ \(\w+\): removed 6 rules/);
      assert.equal(await listed(), '');
      await written();
      const kept = await listed();
      await change('10.3.0.0/16');
      // The reading follows the sync: the next change begins after it.
      await change('10.4.0.0/16');
      assert.equal(await listed(), kept);
      assert.equal(agent.log().match(/no longer in use/g)?.length, 1);
      assert.match((await node.agent('doctor')).stdout, /^older-agent \(IPv4\): /m);
      await agent.stop();
      assert.match(agent.log(), /: removed \d+ rules.*\n$/);
      assert.equal(await listed(), '');
      assert.doesNotMatch(await node.nft('list tables'), /ip-masq-agent/);
    });
  }
});

function changes(agent: RunningAgent): number {
  return jsonLines(agent.log()).filter(({ reason }) => reason === 'change').length;
}

/** Changes the config, and waits until the agent has applied it. */
function changing(agent: RunningAgent, volume: ProjectedVolume) {
  return async (cidr: string) => {
    const before = changes(agent);
    await volume.swap({ 'ip-masq-x': inside(cidr) });
    await eventually(
      () => changes(agent) > before,
      () => `a change to ${cidr}; the log is ${agent.log()}`,
    );
  };
}
