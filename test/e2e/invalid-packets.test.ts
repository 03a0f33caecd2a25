import { describe, it } from 'node:test';
import { createNode } from './support.ts';

const WITH_PODS = { 'ip-masq-a': 'masqueradeFromCIDRs: [10.244.0.0/16]\n' };
const DROP = '--invalid-packets=drop';

describe(DROP, () => {
  it('is a warning if the agent has taken iptables', async () => {
    await using node = await createNode();
    await node.volume(WITH_PODS);
    const agent = node.start(DROP);
    await agent.logged(/using iptables/);
    await agent.logged(/--invalid-packets=drop has no effect/);
    await agent.stop();
  });
});
