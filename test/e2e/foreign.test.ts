import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { olderAgentRules } from '../lab/older-agent.ts';
import { succeed } from '../lab/run.ts';
import type { ProjectedVolume } from '../lab/volume.ts';
import { createNode, eventually, inside, jsonLines, type RunningAgent, SERVED } from './support.ts';

const DOCKER = ['POSTROUTING', '-s', '172.17.0.0/16', '!', '-o', 'docker0', '-j', 'MASQUERADE'];

describe('the agent', () => {
  it('warns at its start of a foreign rule that masquerades what the config leaves alone, with the rule', async () => {
    await using node = await createNode();
    await node.volume({ 'ip-masq-x': inside('10.1.0.0/16') });
    await node.iptables('-A', ...DOCKER);
    const agent = node.start('--resync-interval=1h');
    await agent.logged(/rule of Docker/);
    const [warning, ...more] = warnings(agent);
    assert.deepEqual(more, []);
    assert.equal(
      warning?.['msg'],
      "IPv4: a rule of Docker in iptables (nft) nat POSTROUTING may masquerade traffic to 169.254.0.0/16 (built in (RFC 3927)), 10.1.0.0/16 (ip-masq-x:1:22), which the config does not masquerade; accept it if Docker's containers are not pods (--accept-foreign=docker): without it they reach nothing outside of the node; if pods are on its bridge, start dockerd with --ip-masq=false",
    );
    assert.deepEqual(warning['rules'], [
      '-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE',
      'only if: source 172.17.0.0/16; output interface not docker0',
    ]);
    await agent.stop();
  });

  it('does not warn of an author that --accept-foreign names, nor does the doctor beside it', async () => {
    await using node = await createNode();
    await node.volume({ 'ip-masq-x': inside('10.1.0.0/16') });
    await succeed(node.box.run('sysctl', ['-qw', 'net.ipv4.ip_forward=1']));
    const agent = node.start('--resync-interval=1h', '--accept-foreign=docker,libvirt');
    await agent.logged(/"reason":"start"/);
    await node.iptables('-A', ...DOCKER);
    const doctor = await node.agent('doctor');
    assert.deepEqual([doctor.code, doctor.stdout.split(';')[0]], [0, 'nothing found'], doctor.stdout);
    const other = await node.agent('doctor', '--accept-foreign=libvirt');
    assert.equal(other.code, 4);
    assert.match(other.stdout, /^foreign-rule .*Docker/m);
    await agent.stop();

    const again = node.start('--resync-interval=1h', '--accept-foreign=docker', SERVED);
    await again.logged(/rule of Docker .* accepted by --accept-foreign/);
    assert.deepEqual(warnings(again), []);
    const metrics = await node.metrics();
    assert.doesNotMatch(metrics, /^ip_masq_agent_foreign_masquerade_rules\{/m);
    assert.match(
      metrics,
      /^ip_masq_agent_accepted_foreign_rules\{family="IPv4",author="docker",sources="some"\} 1$/m,
    );
    await again.stop();
  });

  it('warns once, however often the config changes, and again when the rule has come back', async () => {
    await using node = await createNode();
    const volume = await node.volume({ 'ip-masq-x': inside('10.1.0.0/16') });
    await node.iptables('-A', ...DOCKER);
    const agent = node.start('--resync-interval=1h', SERVED);
    await agent.logged(/rule of Docker/);
    const change = changing(agent, volume);
    await change('10.2.0.0/16');
    await change('10.3.0.0/16');
    assert.equal(warnings(agent).length, 1);
    await node.iptables('-D', ...DOCKER);
    await change('10.4.0.0/16');
    // The reading of foreign rules goes on beside the loop. What it has found is in the metrics, which may be a second old.
    await eventually(
      async () => !/^ip_masq_agent_foreign_masquerade_rules\{/m.test(await node.metrics()),
      () => 'a reading without the rule',
    );
    await node.iptables('-A', ...DOCKER);
    await change('10.5.0.0/16');
    await eventually(
      () => warnings(agent).length === 2,
      () => `a second warning; the log is ${agent.log()}`,
    );
    await agent.stop();
  });

  it('is silent on a node where nobody interferes, and reads no foreign rules with --once', async () => {
    await using node = await createNode();
    await node.volume({ 'ip-masq-x': inside('10.1.0.0/16') });
    const agent = node.start('--resync-interval=100ms', '--v=3');
    await agent.logged(/(?:"reason":"resync".*\n.*){2}/);
    assert.deepEqual(warnings(agent), []);
    await agent.stop();
    await node.iptables('-A', ...DOCKER);
    assert.doesNotMatch((await node.agent('--once')).stderr, /Docker/);
  });
});

describe('rules of another agent in a chain of the same name', () => {
  for (const [flag, mode] of [
    ['--iptables-mode=nft', 'legacy'],
    ['--iptables-mode=legacy', 'nft'],
    ['--backend=nftables', 'nft'],
  ] as const) {
    it(`are removed once, and if they come back they stay, with one warning: ${mode} beside ${flag}`, async () => {
      await using node = await createNode();
      const volume = await node.volume({ 'ip-masq-x': inside('10.1.0.0/16') });
      await node.iptables('-A', ...DOCKER);
      const agent = node.start('--resync-interval=1h', '--cleanup-on-exit', flag);
      const written = () => node.restore(`iptables-${mode}-restore`, ...olderAgentRules());
      const listed = async () =>
        (await node.box.run(`iptables-${mode}`, ['-t', 'nat', '-S', 'IP-MASQ-AGENT'])).stdout;
      const change = changing(agent, volume);
      // The first reading has ended: it tells at its end what it has found.
      await agent.logged(/rule of Docker/);

      await written();
      await change('10.2.0.0/16');
      await agent.logged(/left by an earlier run: IPv4, iptables [\d.]+ \(\w+\): removed 7 rules/);
      assert.equal(await listed(), '');

      await written();
      const kept = await listed();
      await change('10.3.0.0/16');
      const [warning] = await agent.logged(/^.*are back, and stay.*$/m);
      assert.match(
        String(JSON.parse(warning).msg),
        /^IPv4: rules that this agent removed from iptables [\d.]+ \(\w+\) are back, and stay: ip-masq-agent v1 or v2 keeps a chain of the same name there, and may masquerade what the config does not masquerade; do not run both: remove the DaemonSet of the older agent, as the migration guide says \(docs\/migration\.md\)$/,
      );
      await change('10.4.0.0/16');
      // The reading follows the sync: the next change begins after it.
      await change('10.5.0.0/16');
      await change('10.6.0.0/16');
      assert.equal(agent.log().match(/are back/g)?.length, 1);
      assert.equal(agent.log().match(/left by an earlier run/g)?.length, 1);
      await agent.stop();
      assert.match(agent.log(), /: removed \d+ rules.*\n$/);
      assert.equal(await listed(), kept);
    });
  }
});

function warnings(agent: RunningAgent): readonly Record<string, unknown>[] {
  return jsonLines(agent.log()).filter(({ level }) => level === 'warn');
}

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
