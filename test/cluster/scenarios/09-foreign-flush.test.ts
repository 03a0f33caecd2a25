import assert from 'node:assert/strict';
import { DAMAGES } from '../../lab/damages.ts';
import { DATAPLANES } from '../lab/agent.ts';
import { isIPv6Alone } from '../lab/cluster.ts';
import { saveForeignRules } from '../lab/foreign-rules.ts';
import { settledRules } from '../lab/nodes.ts';
import { PODS_INSIDE, packets, podsInside, untilPackets } from '../lab/packets.ts';
import { type Lab, scenario } from '../lab/scenario.ts';
import { PER_SECOND, startTraffic } from '../lab/traffic.ts';
import { until } from '../lab/wait.ts';

scenario(
  'another program flushes the rules of a live node, and the agent writes its own again',
  async (lab) => {
    // Only an event of the kernel can lead to the repair.
    const interval = '--resync-interval=24h';
    const tool = isIPv6Alone(lab.cluster) ? 'ip6tables-nft' : 'iptables-nft';
    const all = DAMAGES.nftables['a flushed ruleset'];
    const flushes = { iptables: [DAMAGES.iptables['a flushed table'], all], nftables: [all] };
    for (const { backend, components, args } of DATAPLANES) {
      await lab.agent.deploy({ configFiles: podsInside(lab), components, args: [interval, ...args] });
      await untilPackets(lab, PODS_INSIDE);
      for (const { script } of flushes[backend]) {
        const flush = script('IPv4', tool);
        await survives(lab, flush, `${flush} with the agent's rules in ${backend}`);
      }
    }
  },
);

/**
 * Connections may fail too, from other nodes as well: without any rule that needs it, the kernel tracks no connection. One
 * that begins then is taken for one in the other direction, if an answer is the first packet that is tracked again.
 */
async function survives(lab: Lab, flush: string, what: string): Promise<void> {
  const [node] = lab.nodes;
  const before = await settledRules(node);
  const restore = await saveForeignRules(node);
  await using traffic = await startTraffic(lab, PER_SECOND);
  try {
    await node.must('sh', '-ec', flush);
    await until(`the agent's rules to be back after ${what}`, node.ownRules, (rules) => rules === before);
    assert.deepEqual(await packets(lab), PODS_INSIDE);
  } finally {
    await restore();
  }
  for (const { route, count, wrong, failed, longestMs } of await traffic.end(PODS_INSIDE)) {
    const { from, family, place } = route;
    assert.ok(count > 0);
    if (from.name !== node.name || place === 'pods') assert.equal(wrong, 0, `from ${from.name} to ${place}`);
    else
      lab.measured(
        `${what}, ${family}`,
        `${wrong} of ${count} connections wrong, ${failed} failed, for ${Math.round(longestMs)} ms`,
      );
  }
}
