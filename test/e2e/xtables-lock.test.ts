import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { answers, createNode, holdLock, inside, SERVED } from './support.ts';

const LEGACY = '--iptables-mode=legacy';

describe('while another program holds the xtables lock', () => {
  it('the agent tries for --sync-timeout, then ends with exit code 1', async () => {
    await using node = await createNode();
    const before = await node.kernel();
    const lock = await holdLock(node);
    const { code, stderr } = await node.agent('--once', LEGACY, '--sync-timeout=1500ms');
    lock.kill();
    assert.equal(code, 1, stderr);
    assert.match(stderr, /"fatal".*gave up after 1500 ms: .*xtables lock/);
    assert.equal(await node.kernel(), before);
  });

  it('the agent waits, and writes its rules once the lock is free', async () => {
    await using node = await createNode();
    const lock = await holdLock(node);
    const agent = node.start('--once', LEGACY);
    await agent.logged(/trying again: .*xtables lock/);
    lock.kill();
    assert.equal((await agent.ended).code, 0, agent.log());
    await agent.logged(/IPv4: rules added 6/);
  });

  it('nftables does not wait for it, and the old chain goes once the lock is free', async () => {
    await using node = await createNode();
    assert.equal((await node.agent('--once', LEGACY)).code, 0);
    const volume = await node.volume({ 'ip-masq-cloud': inside('10.1.0.0/16') });
    const lock = await holdLock(node);
    const agent = node.start('--backend=nftables', '--resync-interval=2s', SERVED);
    await agent.logged(/cannot remove leftovers .*; trying again/);
    await agent.logged(/http:/);
    await volume.swap({ 'ip-masq-cloud': inside('10.2.0.0/16') });
    await agent.logged(/- element 10\.1\.0\.0\/16/);
    assert.match(await node.run('nft', 'list', 'table', 'ip', 'ip-masq-agent'), /10\.2\.0\.0\/16 counter/);
    lock.kill();
    await agent.logged(/no longer in use: IPv4, iptables [\d.]+ \(legacy\)/);
    await agent.logged(/no leftovers of an earlier run are left/);
    assert.equal(agent.log().match(/cannot remove leftovers/g)?.length, 1);
    await agent.stop();
  });

  it('readiness ends with a reason, and comes back with the first sync that succeeds', async () => {
    await using node = await createNode();
    const flags = [LEGACY, '--enable-ipv6', '--resync-interval=500ms', '--sync-timeout=10m'];
    const agent = node.start(SERVED, ...flags);
    await agent.logged(/http:\/\/127\.0\.0\.1:9614/);
    await answers(node, '/readyz', /^200 ok\n/);

    const lock = await holdLock(node);
    // After five seconds without a reading this says so too.
    const late = /^503 (\[-\] sync IPv[46]: .* 1\.5 s.*\n){2}(\[-\] rules: .*\n)?not ok\n/;
    await answers(node, '/readyz', late);
    await answers(node, '/statusz', /not in sync: sync IPv4: /);
    assert.match(await node.fetch('/healthz'), /^200 ok\n/);
    const told = await node.agent('status', '-o', 'json');
    const { inSync, reasons } = JSON.parse(told.stdout);
    assert.deepEqual([told.code, inSync], [4, false]);
    assert.match(reasons.join(), /^sync IPv4: /);
    await answers(node, '/readyz', /^503 (?:.*\n)+\[-\] rules: .*cannot read.*xtables lock.*\nnot ok\n/);

    lock.kill();
    await answers(node, '/readyz', /^200 ok\n/);
    await answers(node, '/statusz', /the rules are in sync/);
    await agent.stop();
  });
});
