import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { answers, createNode, eventually, type NodeLab, SERVED } from './support.ts';

const inside = (cidr: string) => ({ 'ip-masq-a': `nonMasqueradeCIDRs: [${cidr}]\n` });
const INVALID = inside('10.1.0.1/16');
const KEEP = ['--on-invalid-config=keep', '--resync-interval=200ms', SERVED];

/** All rules of the node, without their counts. */
async function rulesOf(node: NodeLab): Promise<string> {
  const tables = await node.box.run('nft', ['list', 'tables']);
  return (await node.kernel()).replaceAll(/ -c \d+ \d+/g, '') + tables.stdout;
}

describe('an invalid config with --on-invalid-config=keep', () => {
  it('is reported; the last valid config stays, its drift is repaired, and the next valid config takes over', async () => {
    await using node = await createNode();
    const volume = await node.volume(inside('10.1.0.0/16'));
    const agent = node.start(...KEEP);
    await agent.logged(/metrics, probes and status on/);
    const before = await rulesOf(node);
    await volume.swap(INVALID);
    await agent.logged(/1 error in the config; the config that was applied last stays in use/);
    assert.match(agent.log(), /"msg":"ip-masq-a:1:22: error: /);
    await answers(node, '/readyz', /^503 \[-\] config: 1 error .* ip-masq-a:1:22: /);
    await answers(node, '/healthz', /^200 /);
    await answers(node, '/metrics', /^ip_masq_agent_config_valid 0$/m);
    await answers(node, '/statusz', /invalid: .*ip-masq-a:1:22: /);
    await node.iptables('-F', 'IP-MASQ-AGENT');
    await agent.logged(/has changed the agent's rules; repaired/);
    assert.equal(await rulesOf(node), before);
    assert.equal(agent.log().match(/stays in use/g)?.length, 1, 'told once');

    await volume.loseData();
    await agent.logged(/\.\.data is gone from/);
    await volume.swap(inside('10.2.0.0/16'));
    await agent.logged(/the config is valid again/);
    await agent.logged(/\+ -d 10\.2\.0\.0\/16/);
    await answers(node, '/readyz', /^200 ok\n/);
    await answers(node, '/metrics', /^ip_masq_agent_config_valid 1$/m);
    await agent.stop();
  });

  it('at a start ends the agent with --once only', async () => {
    await using node = await createNode();
    const volume = await node.volume(inside('10.1.0.0/16'));
    assert.equal((await node.agent('--once')).code, 0);
    await volume.swap(INVALID);
    const once = await node.agent('--once', ...KEEP);
    assert.equal(once.code, 3);
    assert.match(once.stderr, /"level":"fatal".*1 error in the config; the rules on this node do not change/);
    const agent = node.start(...KEEP);
    await agent.logged(/the rules on this node do not change/);
    await agent.stop();
  });

  it('of which no valid one is known leaves nothing open, however often it is read', async () => {
    await using node = await createNode();
    await node.volume(INVALID);
    const agent = node.start(...KEEP, `--state-dir=${node.dir}/state`);
    const { pid } = JSON.parse((await agent.logged(/{.*"starting .*}/))[0]);
    const open = async () => (await readdir(`/proc/${pid}/fd`)).length;
    await agent.logged(/most get no answer from outside/);
    const before = await open();
    await delay(2_000);
    // A tool that runs has some open too.
    await eventually(
      async () => (await open()) < before + 5,
      () => `no more open files than the ${before} of the start, and some`,
    );
    await agent.stop();
  });
});
