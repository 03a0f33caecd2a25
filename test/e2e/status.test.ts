import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { besideAgent, createNode, inside, type NodeLab, SERVED } from './support.ts';

async function stateOf(node: NodeLab) {
  const { code, stdout, stderr } = await node.agent('status', '-o', 'json');
  return { code, state: JSON.parse(stdout || assert.fail(stderr)) };
}

describe('status', () => {
  it('says without an HTTP server what the agent does, with the hash that check has', async () => {
    await using node = await createNode();
    await node.volume({ 'ip-masq-a': inside('10.0.0.0/8'), 'ip-masq-b': inside('172.16.0.0/12') });
    const agent = node.start('--backend=nftables', '--enable-ipv6');
    await agent.logged(/"family":"IPv6".*"reason":"start"/);
    const { code, state } = await stateOf(node);
    const { hash } = JSON.parse((await node.agent('check', '-o', 'json')).stdout);
    assert.deepEqual(
      [
        code,
        state.ok,
        state.hash,
        state.configFiles,
        state.inSync,
        state.reasons,
        state.invalid,
        state.keeps,
      ],
      [0, true, hash, ['ip-masq-a', 'ip-masq-b'], true, [], null, null],
    );
    assert.match(state.dataplane.name, /^nftables$/);
    assert.equal(state.dataplane.reason, 'set by --backend');
    assert.deepEqual(
      state.syncs.map(({ family, found }: { family: string; found: string[] }) => [family, found.length > 0]),
      [
        ['IPv4', true],
        ['IPv6', true],
      ],
    );
    const { stdout } = await node.agent('status');
    assert.match(stdout, /^ip-masq-agent \S+: the rules are in sync\n/);
    for (const text of [hash, state.version, state.dataplane.reason, state.syncs[0].last])
      assert.ok(stdout.includes(text), stdout);
    await agent.stop();
  });

  it('says what is wrong with the config and what stays in use, with exit code 3, as the page does', async () => {
    await using node = await createNode();
    const volume = await node.volume({ 'ip-masq-a': inside('10.0.0.0/8') });
    const flags = ['--on-invalid-config=keep', '--resync-interval=1h', SERVED];
    const agent = node.start(...flags);
    await agent.logged(/http:/);
    const { state: first } = await stateOf(node);
    await volume.swap({ 'ip-masq-a': inside('10.0.0.0/9') });
    await agent.logged(/"reason":"change"/);
    const { state: before } = await stateOf(node);
    assert.notEqual(before.hash, first.hash);
    await volume.swap({ 'ip-masq-a': inside('10.0.0.1/8') });
    await agent.logged(/stays in use/);
    const { code, state } = await stateOf(node);
    assert.deepEqual([code, state.ok, state.keeps, state.hash], [3, false, 'config', before.hash]);
    assert.match(state.invalid.first, /^ip-masq-a:1:22: error: /);
    assert.match((await node.agent('status')).stdout, /in sync\n(?:.*\n)*invalid: 1 error .* stays in use\n/);
    assert.ok((await node.fetch('/statusz')).includes(state.invalid.first));
    await agent.stop();

    const again = node.start(...flags);
    await again.logged(/the rules on this node do not change/);
    // By then it has the lock.
    await again.logged(/http:/);
    const held = await stateOf(node);
    assert.deepEqual([held.code, held.state.keeps, held.state.hash], [3, 'rules', null]);
    assert.match((await node.agent('status')).stdout, /: the rules are those of an earlier run$/m);
    await again.stop();
  });

  it('fails beside no agent, and beside one that does not tell', async () => {
    await using node = await createNode();
    const alone = await node.agent('status');
    assert.deepEqual([alone.code, alone.stdout], [1, '']);
    assert.match(alone.stderr, /^ip-masq-agent: no agent runs /);
    const old = await besideAgent(node, () => node.agent('status', '-o', 'json'));
    assert.deepEqual([old.code, old.stdout], [1, '']);
    assert.match(old.stderr, /^ip-masq-agent: ip-masq-agent 0 .* does not tell its state: /);
  });
});
