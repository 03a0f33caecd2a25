import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createNode, eventually, type NodeLab, type RunningAgent, SERVED } from '../e2e/support.ts';
import { createNetwork, POD } from '../lab/network.ts';
import { startStreams } from '../lab/stream.ts';
import { BACKENDS, NO_LAB } from './support.ts';

/** An address that moves to the node and away from it. */
const VIRTUAL = '192.0.2.139';
const OUTSIDE = ['203.0.113.9', '203.0.113.10', '203.0.113.11', '203.0.113.12', '203.0.113.13'] as const;

const addresses = `masqueradeAddresses: [{destination: 0.0.0.0/0, address: ${VIRTUAL}/32}]\n`;
/** Each edit turns the verdicts of the connections over that began before it. */
const EDITS = [
  'nonMasqueradeCIDRs: [10.0.0.0/8, 203.0.113.0/24]\n',
  'nonMasqueradeCIDRs: [10.0.0.0/8]\n',
  'nonMasqueradeCIDRs: [10.0.0.0/8, 203.0.113.0/28]\n',
  `nonMasqueradeCIDRs: [10.0.0.0/8]\n${addresses}`,
] as const;

const FLUSH: Readonly<Record<string, string>> = {
  nftables: 'nft delete table ip ip-masq-agent',
  'iptables-nft': 'iptables-nft -t nat -F',
};

/** The last reading of connection tracking. On a busy machine the agent may not answer in time: then there is none. */
async function lastReading(node: NodeLab) {
  const { stdout } = await node.agent('status', '--output=json');
  return stdout === '' ? undefined : JSON.parse(stdout).flows;
}

/** Two readings of connection tracking, both of which begin now or later. */
async function readTwice(node: NodeLab, agent: RunningAgent): Promise<void> {
  for (let reading = 0; reading < 2; reading += 1) {
    const asked = new Date().toISOString();
    agent.kill('SIGHUP');
    await eventually(
      async () => {
        const flows = await lastReading(node);
        // A change of addresses that the agent notes only now outdates the reading.
        if (flows === null) agent.kill('SIGHUP');
        return flows?.at > asked;
      },
      () => `no reading since ${asked}`,
    );
  }
}

describe('connections that go on through changes in a row', { skip: NO_LAB }, () => {
  for (const { name, flags } of BACKENDS)
    it(`are none that began since the last change: edits, a flush, an address that moves (${name})`, async () => {
      await using node = await createNode();
      await using network = await createNetwork(node.box);
      await using streams = await startStreams(network.pod, network.outside);
      const ip = (command: string) => node.run('ip', ...command.split(' '));
      await ip(`route add ${POD.IPv4} dev pod0`);
      // As kube-proxy does: with its rules the kernel tracks connections while the agent's are gone.
      await node.nft(
        'table ip service { chain post { type nat hook postrouting priority 90; ct state new counter; }; }',
      );
      const volume = await node.volume({ 'ip-masq-x': EDITS[1] });
      const agent = node.start(...flags, SERVED, '--resync-interval=1s');
      await agent.logged(/metrics, probes and status on/);
      const open: string[] = [OUTSIDE[0]];
      const holds = async (what: string) => {
        type Counts = readonly { readonly since: string; readonly flows: number }[];
        const read = async (): Promise<Counts | undefined> => {
          await readTwice(node, agent);
          return (await lastReading(node))?.counts;
        };
        // A reading may fail: the kernel changes while it is read.
        const counts = (await read()) ?? (await read()) ?? assert.fail(`${what}: not read`);
        await streams.advance(open).catch((error: unknown) => assert.fail(`${what}: ${error}`));
        const since = counts.filter((one) => one.since === 'after' && one.flows > 0);
        assert.deepEqual(since, [], `${what}: ${JSON.stringify(counts)}`);
        return counts.reduce((sum, one) => sum + one.flows, 0);
      };
      await streams.advance(open);
      let mostBefore = 0;
      for (const [index, edit] of EDITS.entries()) {
        const rules = agent.log().length;
        await volume.swap({ 'ip-masq-x': edit });
        await eventually(
          () => /rules|set/.test(agent.log().slice(rules)),
          () => agent.log(),
        );
        open.push(OUTSIDE[index + 1] ?? '');
        await streams.advance(open);
        mostBefore = Math.max(mostBefore, await holds(`edit ${index}`));
      }
      // Some are against the policy, as they began: the readings see them.
      assert.ok(mostBefore > 0);
      await node.run('sh', '-c', FLUSH[name] ?? assert.fail(name));
      await agent.logged(/has changed the agent's rules/);
      await holds('a flush');
      for (const command of ['add', 'del', 'add'] as const) {
        await ip(`address ${command} ${VIRTUAL}/32 dev uplink0`);
        const port = 30_000 + agent.log().length;
        await network.sourcesSeen([OUTSIDE[0]], { source: { address: POD.IPv4, port } });
        await holds(`an address: ${command}`);
      }
      assert.equal((await network.sourceSeen(OUTSIDE[4])).address, VIRTUAL);
      await agent.stop();
    });
});
