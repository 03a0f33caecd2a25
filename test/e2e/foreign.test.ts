import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createNode, eventually, jsonLines, type RunningAgent } from './support.ts';

const DOCKER = ['POSTROUTING', '-s', '172.17.0.0/16', '!', '-o', 'docker0', '-j', 'MASQUERADE'];
const INSIDE = (...cidrs: string[]) => `nonMasqueradeCIDRs: [${cidrs.join(', ')}]\n`;

describe('the agent', () => {
  it('warns at its start of a rule of others that masquerades what the config leaves alone, with the rule', async () => {
    await using node = await createNode();
    await node.volume({ 'ip-masq-x': INSIDE('10.1.0.0/16') });
    await node.iptables('-A', ...DOCKER);
    const agent = node.start('--resync-interval=1h');
    await agent.logged(/rule of Docker/);
    const [warning, ...more] = warnings(agent);
    assert.deepEqual(more, []);
    assert.equal(
      warning?.['msg'],
      'IPv4: a rule of Docker in iptables (nft) nat POSTROUTING may masquerade traffic to 169.254.0.0/16 (built in (RFC 3927)), 10.1.0.0/16 (ip-masq-x:1:22), which the config leaves alone; start dockerd with --ip-masq=false ("ip-masq": false in daemon.json); for other networks than the default one set com.docker.network.bridge.enable_ip_masquerade=false',
    );
    assert.deepEqual(warning['rules'], [
      '-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE',
      'only if: source 172.17.0.0/16; output interface not docker0',
    ]);
    await stopped(agent);
  });

  it('warns once, however often the config changes, and again when the rule has come back', async () => {
    await using node = await createNode();
    const volume = await node.volume({ 'ip-masq-x': INSIDE('10.1.0.0/16') });
    await node.iptables('-A', ...DOCKER);
    const agent = node.start('--resync-interval=1h');
    await agent.logged(/rule of Docker/);
    const change = async (...cidrs: string[]) => {
      const before = changes(agent);
      await volume.swap({ 'ip-masq-x': INSIDE(...cidrs) });
      await eventually(
        () => changes(agent) > before,
        () => `a change to ${cidrs}; the log is ${agent.log()}`,
      );
    };
    await change('10.2.0.0/16');
    await change('10.3.0.0/16');
    assert.equal(warnings(agent).length, 1);
    await node.iptables('-D', ...DOCKER);
    await change('10.4.0.0/16');
    // The look at the rules of others follows the sync: the next change begins after it.
    await change('10.5.0.0/16');
    await node.iptables('-A', ...DOCKER);
    await change('10.6.0.0/16');
    await eventually(
      () => warnings(agent).length === 2,
      () => `a second warning; the log is ${agent.log()}`,
    );
    await stopped(agent);
  });

  it('is silent on a node where nobody interferes, and does not look with --once', async () => {
    await using node = await createNode();
    await node.volume({ 'ip-masq-x': INSIDE('10.1.0.0/16') });
    const agent = node.start('--resync-interval=100ms', '--v=3');
    await agent.logged(/(?:"reason":"resync".*\n.*){2}/);
    assert.deepEqual(warnings(agent), []);
    await stopped(agent);
    await node.iptables('-A', ...DOCKER);
    assert.doesNotMatch((await node.agent('--once')).stderr, /Docker/);
  });
});

function warnings(agent: RunningAgent): readonly Record<string, unknown>[] {
  return jsonLines(agent.log()).filter(({ level }) => level === 'warn');
}

function changes(agent: RunningAgent): number {
  return jsonLines(agent.log()).filter(({ reason }) => reason === 'change').length;
}

async function stopped(agent: RunningAgent): Promise<void> {
  agent.kill('SIGTERM');
  assert.equal((await agent.ended).code, 0);
}
