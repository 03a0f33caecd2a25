import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createNode, eventually, type NodeLab, SERVED } from '../e2e/support.ts';
import { startHelper } from '../lab/helper.ts';
import { createNetwork, NODE, POD } from '../lab/network.ts';
import type { Opening } from '../lab/opener.ts';
import { STREAM_PORT, startStreams } from '../lab/stream.ts';
import { BACKENDS, NO_LAB } from './support.ts';

const TO = { IPv4: '203.0.113.9', IPv6: '2606:4700::1' } as const;
const OTHER = { IPv4: '203.0.113.10', IPv6: '2606:4700::2' } as const;
const SHOWN = {
  IPv4: `${TO.IPv4}:${STREAM_PORT}`,
  IPv6: `[${TO.IPv6}]:${STREAM_PORT}`,
} as const;

describe('ports of a small range', { concurrency: true, skip: NO_LAB }, () => {
  for (const { name, flags } of BACKENDS) {
    it(`run out exactly where the command and the metric say: ${name}`, async () => {
      await using node = await createNode();
      await using network = await createNetwork(node.box);
      // It listens outside.
      await using streams = await startStreams(network.pod, network.outside);
      await streams.accepted();
      await using pod = await startHelper<Opening, number>(
        network.pod,
        new URL('../lab/opener.ts', import.meta.url),
      );
      const all = [...flags, '--enable-ipv6', '--to-ports=2001-2010', SERVED];
      await node.volume({ 'ip-masq-a': 'nonMasqueradeCIDRs: [10.0.0.0/8, fd00::/8]\n' });
      assert.equal((await node.agent('--once', ...all)).code, 0);
      assert.equal(await pod.ask({ destination: TO.IPv4, connections: 8 }), 8);
      assert.equal(await pod.ask({ destination: TO.IPv6, connections: 5 }), 5);
      assert.equal(await pod.ask({ destination: OTHER.IPv4, connections: 1 }), 1);

      const agent = node.start(...all);
      await agent.logged(/metrics, probes and status on/);
      await eventually(
        async () => (await share(node, 'IPv6')) === 0.5,
        () => agent.log(),
      );
      assert.equal(await share(node, 'IPv4'), 0.8);

      // The range of ports is the running agent's.
      const { code, stdout, stderr } = await node.agent('ports');
      assert.equal(code, 0, stderr);
      assert.deepEqual(stdout.split('\n').slice(0, 3), [
        ` 80.0%  8 of 10 ports of ${NODE.IPv4} to tcp ${SHOWN.IPv4}, used by ${POD.IPv4} (8)`,
        ` 50.0%  5 of 10 ports of ${NODE.IPv6} to tcp ${SHOWN.IPv6}, used by ${POD.IPv6} (5)`,
        ` 10.0%  1 of 10 ports of ${NODE.IPv4} to tcp ${OTHER.IPv4}:${STREAM_PORT}, used by ${POD.IPv4} (1)`,
      ]);

      const more = (family: keyof typeof TO, connections: number) =>
        pod.ask({ destination: TO[family], connections });
      // One more than there are ports.
      assert.deepEqual(await Promise.all([more('IPv4', 3), more('IPv6', 6)]), [2, 5]);
      const full = JSON.parse((await node.agent('ports', '--output=json')).stdout).destinations;
      assert.deepEqual(
        full
          .slice(0, 2)
          .map((one: { readonly inUse: number; readonly ports: number }) => [one.inUse, one.ports]),
        [
          [10, 10],
          [10, 10],
        ],
      );
      // For another destination the same ports are free.
      assert.equal(await pod.ask({ destination: OTHER.IPv4, connections: 9 }), 9);
      await agent.stop();
    });
  }
});

async function share(node: NodeLab, family: string): Promise<number> {
  const pattern = new RegExp(`^ip_masq_agent_port_usage_ratio\\{family="${family}"\\} (\\S+)$`, 'm');
  return Number(pattern.exec(await node.metrics())?.[1]);
}
