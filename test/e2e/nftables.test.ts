import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { createNode, eventually, inside, type NodeLab, SERVED } from './support.ts';
import { holdLock } from './xtables-lock.ts';

describe('the agent with --backend=nftables', () => {
  it('is explained: by the element that holds an address, or by what somebody has changed', async () => {
    await using node = await createNode();
    await writeFile(join(node.configDir, 'ip-masq-x'), inside('10.0.0.0/8'));
    const explain = (...addresses: string[]) =>
      node.agent('explain', '--live', '--backend=nftables', ...addresses);
    assert.match((await explain('10.1.1.1')).stdout, /kernel DISAGREES: /);
    await node.agent('--once', '--backend=nftables');
    const agreed = await explain('10.1.1.1', '8.8.8.8');
    assert.equal(agreed.code, 0);
    assert.match(
      agreed.stdout,
      /kernel agrees: ip postrouting: ip daddr @not-masqueraded return .*, element 10\.0\.0\.0\/8\n/,
    );
    assert.match(agreed.stdout, /kernel agrees: ip postrouting: counter masquerade fully-random /);
    await node.nft('insert rule ip ip-masq-agent postrouting ip daddr 10.0.0.0/9 masquerade');
    const changed = await explain('10.1.1.1');
    assert.equal(changed.code, 4);
    assert.match(changed.stdout, /kernel DISAGREES: .*ip daddr 10\.0\.0\.0\/9 masquerade/);
  });
});

describe('a start with another dataplane', () => {
  const WAYS = ['--backend=nftables', '--iptables-mode=nft', '--iptables-mode=legacy'];
  for (const from of WAYS) {
    for (const to of WAYS.filter((way) => way !== from)) {
      it(`from ${from} to ${to} leaves the rules of the new one only`, async () => {
        await using node = await createNode();
        await writeFile(join(node.configDir, 'ip-masq-x'), inside('10.0.0.0/8', 'fd00::/8'));
        await node.agent('--once', '--enable-ipv6', to);
        const wanted = await everything(node);
        await node.agent('cleanup');
        await node.agent('--once', '--enable-ipv6', from);
        const { code, stderr } = await node.agent('--once', '--enable-ipv6', to);
        assert.equal(code, 0);
        assert.equal(stderr.match(/: removed \d+ rules/g)?.length, 2);
        assert.equal(await everything(node), wanted);
      });
    }
  }

  it('does not wait for the xtables lock, and removes the old chain once the lock is free', async () => {
    await using node = await createNode();
    assert.equal((await node.agent('--once', '--iptables-mode=legacy')).code, 0);
    const volume = await node.volume({ 'ip-masq-cloud': inside('10.1.0.0/16') });
    const lock = await holdLock(node);
    const agent = node.start('--backend=nftables', SERVED);
    await agent.logged(/cannot remove leftovers .*; trying again/);
    await agent.logged(/http:/);
    await volume.swap({ 'ip-masq-cloud': inside('10.2.0.0/16') });
    await holds(node, ['10.2.0.0/16', '169.254.0.0/16']);
    lock.kill();
    await agent.logged(/left by an earlier run: IPv4, iptables [\d.]+ \(legacy\)/);
    await agent.logged(/no leftovers of an earlier run are left/);
    assert.equal(agent.log().match(/cannot remove leftovers/g)?.length, 1);
    await agent.stop();
  });

  it('makes the new rules before the old ones go', async () => {
    await using node = await createNode();
    await node.agent('--once');
    const monitor = node.box.spawn('nft', ['monitor'], { stdio: ['ignore', 'pipe', 'ignore'] });
    let events = '';
    monitor.stdout?.on('data', (chunk) => {
      events += chunk;
    });
    // The monitor tells nothing of its own start: it listens when it sees this.
    await eventually(
      async () => {
        await node.nft('add table ip probe; delete table ip probe');
        return events.includes('probe');
      },
      () => 'the monitor',
    );
    await node.agent('--once', '--backend=nftables');
    await eventually(
      () => /delete chain ip nat IP-MASQ-AGENT/.test(events),
      () => `the old chain to go: ${events}`,
    );
    monitor.kill();
    const [made, gone] = [/^add rule ip ip-masq-agent /m, /^delete chain ip nat IP-MASQ-AGENT/m].map(
      (event) => events.search(event),
    );
    assert.ok(made !== undefined && gone !== undefined && made !== -1 && made < gone, events);
  });
});

describe('a system that refuses nftables ends the agent with exit code 1:', () => {
  it('netlink is off', async () => {
    await using node = await createNode();
    const { code, stderr } = await node.agent(
      '--once',
      '--backend=nftables',
      '--netlink=off',
      '--log-format=text',
    );
    assert.equal(code, 1);
    assert.match(stderr, /FATAL nftables needs netlink, which does not work here: --netlink=off; /);
  });
});

/** Waits until the sets of both families hold just these elements. */
async function holds(node: NodeLab, elements: readonly string[]): Promise<void> {
  const shown = async () => {
    const listings = await Promise.all(
      ['ip', 'ip6'].map((family) => node.box.run('nft', ['list', 'table', family, 'ip-masq-agent'])),
    );
    return listings.flatMap(({ stdout }) =>
      [...stdout.matchAll(/([0-9a-f.:/-]+) counter packets/g)].map(([, element = '']) => element),
    );
  };
  await eventually(
    async () => (await shown()).filter((one) => /[.:]/.test(one)).join() === elements.join(),
    () => elements.join(),
  );
}

/** All of NAT in every dataplane, counts left out. */
async function everything(node: NodeLab): Promise<string> {
  const tables = ['ip', 'ip6'].map((family) =>
    node.box.run('nft', ['list', 'table', family, 'ip-masq-agent']),
  );
  const listings = (await Promise.all(tables)).map(({ stdout }) => stdout);
  return `${await node.kernel()}${listings.join('')}`.replace(/ -c \d+ \d+/g, '');
}
