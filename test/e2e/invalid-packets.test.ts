import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createNode, SERVED } from './support.ts';

const INSIDE = 'nonMasqueradeCIDRs: [10.0.0.0/8]\n';
const WITH_PODS = { 'ip-masq-a': `${INSIDE}masqueradeFromCIDRs: [10.244.0.0/16]\n` };
const WITHOUT_PODS = { 'ip-masq-a': INSIDE };
const DROP = '--invalid-packets=drop';

describe(DROP, () => {
  it('keeps the last valid config with --on-invalid-config=keep, and says what it does', async () => {
    await using node = await createNode();
    const volume = await node.volume(WITH_PODS);
    const agent = node.start(DROP, '--backend=nftables', '--on-invalid-config=keep', SERVED);
    await agent.logged(/metrics, probes and status on/);
    const rules = () => node.run('nft', 'list', 'table', 'ip', 'ip-masq-agent');
    const before = await rules();
    assert.match(before, /ct state invalid,untracked .* drop comment/);
    await volume.swap(WITHOUT_PODS);
    await agent.logged(/1 error in the config; the last valid config stays in use/);
    assert.equal(await rules(), before);
    await volume.swap(WITH_PODS);
    await agent.logged(/the config is valid again/);
    assert.match(await node.metrics(), /^ip_masq_agent_invalid_packets_total\{family="IPv4"\} 0$/m);
    await agent.stop();
  });

  it('is a warning if the agent has taken iptables', async () => {
    await using node = await createNode();
    await node.volume(WITH_PODS);
    const agent = node.start(DROP);
    await agent.logged(/using iptables/);
    await agent.logged(/--invalid-packets=drop has no effect/);
    await agent.stop();
  });
});
