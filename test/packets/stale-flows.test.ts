import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { METRIC_PREFIX } from '../../lib/status/metrics.ts';
import { answers, createNode, eventually, type NodeLab, type RunningAgent, SERVED } from '../e2e/support.ts';
import { createNetwork, NODE, POD } from '../lab/network.ts';
import { owning } from '../lab/owning.ts';
import { ip } from '../lab/pod-links.ts';
import { startStreams } from '../lab/stream.ts';
import { BACKENDS, NO_LAB } from './support.ts';

const OUTSIDE = { IPv4: '203.0.113.9', IPv6: '2606:4700::1' } as const;
const INSIDE = { IPv4: '10.1.1.1', IPv6: 'fd00:1::1' } as const;
/** What kube-proxy would translate, to an address outside. */
const SERVICE = '10.96.0.1';
const BACKEND = '198.51.100.7';

const CONFIG = 'nonMasqueradeCIDRs: [10.0.0.0/8, fd00::/8]\n';
/** The verdicts of all destinations above are the other ones. */
const OPPOSITE =
  'nonMasqueradeCIDRs: [203.0.113.0/24, 198.51.100.0/24, 10.96.0.0/16, "2606:4700::/32", fd00:244::/32]\n';

describe('flows that began before the rules', { concurrency: true, skip: NO_LAB }, () => {
  for (const { name, flags } of BACKENDS) {
    it(`are reported, and only those whose verdict the rules decide: ${name}`, async () => {
      await using lab = await createLab();
      const { node } = lab;
      const volume = await node.volume({ 'ip-masq-a': CONFIG });
      await lab.beginFlows();
      const agent = node.start(...flags, '--enable-ipv6', SERVED);
      const [line] = await agent.logged(/connections?: .* against the config, because (?:it|they) began.*/);
      assert.match(line, /--stale-flows=delete-udp ends those of UDP/);
      const expected = { 'IPv4 not_masqueraded before': 2, 'IPv6 not_masqueraded before': 2 };
      await hasStale(node, expected);
      assert.match(agent.log(), /udp 10\.244\.1\.2:29000 to 203\.0\.113\.9:4000: not masqueraded/);
      assert.match(agent.log(), /tcp \[fd00:244:1::2\]:\d+ to \[2606:4700::1\]:4001: not masqueraded/);
      assert.deepEqual(await lab.sources(), [POD.IPv4, POD.IPv6, POD.IPv4, POD.IPv6]);

      // What is stale after a change keeps the address of the node, and what was stale is no longer.
      const before = agent.log().length;
      await lab.network.sourcesSeen([OUTSIDE.IPv4], { source: { address: POD.IPv4, port: 29_001 } });
      await volume.swap({ 'ip-masq-a': OPPOSITE });
      await eventually(
        async () => /against the config, because/.test(agent.log().slice(before)),
        () => agent.log(),
      );
      await hasStale(node, {
        'IPv4 masqueraded before': 1,
        'IPv4 not_masqueraded before': 1,
        'IPv6 not_masqueraded before': 1,
      });
      await agent.stop();
    });

    it(`are deleted with --stale-flows=delete-udp, but never those of TCP: ${name}`, async () => {
      await using lab = await createLab();
      const { node } = lab;
      await node.volume({ 'ip-masq-a': CONFIG });
      await lab.beginFlows();
      const agent = node.start(...flags, '--enable-ipv6', SERVED, '--stale-flows=delete-udp');
      await hasDeleted(agent);
      assert.match(agent.log(), /deleted from conntrack.*their next packets/);
      await hasStale(node, {
        'IPv4 not_masqueraded before': 1,
        'IPv6 not_masqueraded before': 1,
      });
      assert.deepEqual(await lab.sources(), [NODE.IPv4, NODE.IPv6, POD.IPv4, POD.IPv6]);
      await lab.streams.advance([OUTSIDE.IPv4, OUTSIDE.IPv6]);
      const accepted = await lab.streams.accepted();
      assert.deepEqual(
        accepted.map(({ address }) => address),
        [POD.IPv4, POD.IPv6],
      );
      await agent.stop();
    });

    it(`are deleted by a restart with --stale-flows=delete-udp, which changes no rules: ${name}`, async () => {
      await using lab = await createLab();
      const { node } = lab;
      await node.volume({ 'ip-masq-a': CONFIG });
      await lab.beginFlows();
      const first = node.start(...flags, '--enable-ipv6', SERVED);
      await first.logged(/--stale-flows=delete-udp ends those of UDP/);
      await first.stop();
      assert.deepEqual(await lab.sources(), [POD.IPv4, POD.IPv6, POD.IPv4, POD.IPv6]);
      const agent = node.start(...flags, '--enable-ipv6', SERVED, '--stale-flows=delete-udp');
      await hasDeleted(agent);
      assert.doesNotMatch(agent.log(), /rules added/);
      assert.deepEqual(await lab.sources(), [NODE.IPv4, NODE.IPv6, POD.IPv4, POD.IPv6]);
      await agent.stop();
    });
  }

  it('are deleted too if they began while another program had deleted the rules', async () => {
    await using lab = await createLab();
    const { node } = lab;
    await node.volume({ 'ip-masq-a': CONFIG });
    const agent = node.start('--backend=nftables', '--enable-ipv6', SERVED, '--stale-flows=delete-udp');
    await agent.logged(/metrics, probes and status on/);
    // Behind the first look at flows, which the start causes.
    await answers(node, '/metrics', /flows_against_policy\{/);
    agent.kill('SIGSTOP');
    await node.run('nft', 'delete table ip ip-masq-agent; delete table ip6 ip-masq-agent');
    await lab.beginFlows();
    agent.kill('SIGCONT');
    await agent.logged(/IPv6: .*; repaired: /);
    await hasDeleted(agent);
    assert.deepEqual(await lab.sources(), [NODE.IPv4, NODE.IPv6, POD.IPv4, POD.IPv6]);
    await agent.stop();
  });

  it('are not looked for with --stale-flows=off', async () => {
    await using lab = await createLab();
    const volume = await lab.node.volume({ 'ip-masq-a': CONFIG });
    await lab.beginFlows();
    const agent = lab.node.start('--stale-flows=off', '--enable-ipv6', SERVED);
    await agent.logged(/metrics, probes and status on/);
    await volume.swap({ 'ip-masq-a': OPPOSITE });
    await answers(lab.node, '/metrics', /syncs_total\{family="IPv6",result="changed"\} 2$/m);
    await hasStale(lab.node, {});
    assert.doesNotMatch(agent.log(), /against the config/);
    agent.kill('SIGTERM');
    await agent.ended;
  });
});

const createLab = () =>
  owning(async (stack) => {
    const node = stack.use(await createNode());
    const network = stack.use(await createNetwork(node.box));
    await ip(node.box, `route add ${POD.IPv4} dev pod0`, `route add ${POD.IPv6} dev pod0`);
    const streams = stack.use(await startStreams(network.pod, network.outside));
    const fromNode = stack.use(await network.witness.openSender(network.node));
    // As kube-proxy does: with its rules the kernel tracks connections, and flows are bound to their addresses.
    await node.nft(`table inet service {
  chain prerouting { type nat hook prerouting priority dstnat; ip daddr ${SERVICE} dnat ip to ${BACKEND}; }
  chain postrouting { type nat hook postrouting priority srcnat; ct state new counter; }
}`);
    const udp = async () => {
      const sources: string[] = [];
      for (const family of ['IPv4', 'IPv6'] as const) {
        const source = { address: POD[family], port: 29_000 };
        const seen = await network.sourcesSeen([OUTSIDE[family], INSIDE[family]], { source });
        sources.push(...seen.map(({ address }) => address));
      }
      return [0, 2, 1, 3].map((index) => sources[index] ?? '');
    };
    return {
      node,
      network,
      streams,
      /** Begins flows of UDP and TCP, from the pod and from the node, to all kinds of destinations. */
      beginFlows: async () => {
        assert.deepEqual(await udp(), [POD.IPv4, POD.IPv6, POD.IPv4, POD.IPv6]);
        await streams.advance([OUTSIDE.IPv4]);
        await streams.advance([OUTSIDE.IPv6]);
        await network.sourcesSeen([SERVICE], { source: { address: POD.IPv4, port: 29_000 } });
        for (const family of ['IPv4', 'IPv6'] as const) {
          const source = { address: NODE[family], port: 29_000 };
          await fromNode.sourcesSeen([OUTSIDE[family], INSIDE[family]], { source });
        }
      },
      /** The sources of the UDP flows that go on: to outside and to inside. */
      sources: udp,
    };
  });

/** Waits until the flow of each family is deleted. Not each reading must find both. */
async function hasDeleted(agent: RunningAgent): Promise<void> {
  for (const family of ['IPv4', 'IPv6'])
    await agent.logged(new RegExp(`deleted from conntrack.*1 not masqueraded \\(${family}\\)`));
}

const SERIES = new RegExp(`^${METRIC_PREFIX}flows_against_policy\\{(.*)\\} ([1-9]\\d*)$`, 'gm');

/** Waits until the metric says so: the agent gives all requests of one second the same answer. */
async function hasStale(node: NodeLab, expected: Readonly<Record<string, number>>): Promise<void> {
  let found: unknown;
  await eventually(
    async () => {
      found = await staleFlows(node);
      return isDeepStrictEqual(found, expected);
    },
    () => `${JSON.stringify(expected)}; the metric says ${JSON.stringify(found)}`,
  );
}

/** What the metric says, without zeros: `FAMILY VERDICT BEGINNING` to the number of flows. */
async function staleFlows(node: NodeLab): Promise<Readonly<Record<string, number>>> {
  const series = (await node.metrics()).matchAll(SERIES);
  return Object.fromEntries(
    Array.from(series, ([, labels = '', value]) => [
      Array.from(labels.matchAll(/"([^"]*)"/g), ([, text]) => text).join(' '),
      Number(value),
    ]),
  );
}
