import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { formatAddress, parseAddress } from '../../lib/cidr/address.ts';
import type { Flow } from '../../lib/netlink/conntrack.ts';
import { createBox } from '../lab/box.ts';
import { startTracker } from '../lab/helpers.ts';
import { createNetwork, NODE, POD } from '../lab/network.ts';
import { succeed } from '../lab/run.ts';
import { BOX_KINDS, FAMILIES } from './support.ts';

const OUTSIDE = { IPv4: '203.0.113.9', IPv6: '2606:4700::1' } as const;
const MASQUERADE = ['ip', 'ip6']
  .map(
    (ip) =>
      `table ${ip} t { chain c { type nat hook postrouting priority 100; oifname "uplink0" masquerade; }; }\n`,
  )
  .join('');

describe('conntrack over netlink', () => {
  for (const kind of BOX_KINDS) {
    it(`lists flows of both families with their translation, and deletes exactly one (${kind})`, async () => {
      await using box = await createBox(kind);
      await using network = await createNetwork(box);
      await succeed(box.run('nft', ['-f', '-'], { input: MASQUERADE }));
      await using tracker = await startTracker(box);
      const ports = [29_000, 29_001] as const;
      for (const family of FAMILIES)
        for (const port of ports)
          await network.sourcesSeen([OUTSIDE[family]], { source: { address: POD[family], port } });
      for (const family of FAMILIES) {
        const listed = async () => {
          const flows = await tracker.ask<readonly Flow[]>({ kind: 'read', family });
          assert.ok(flows.every((flow) => flow.family === family));
          return flows.filter(({ protocol }) => protocol === 17);
        };
        const before = await listed();
        assert.deepEqual(before.map(({ original }) => original.sourcePort).toSorted(), [...ports]);
        const both = await tracker.ask<readonly Flow[]>({ kind: 'read' });
        for (const flow of before) {
          const { original, reply } = flow;
          const text = (value: bigint) => formatAddress({ family, value });
          assert.deepEqual(
            [text(original.source), text(original.destination), original.destinationPort],
            [POD[family], OUTSIDE[family], 4000],
          );
          assert.deepEqual(
            [text(reply.source), reply.sourcePort, text(reply.destination)],
            [OUTSIDE[family], 4000, NODE[family]],
          );
          assert.deepEqual([flow.zone, flow.isExpected, flow.tcpState], [0, false, undefined]);
          assert.ok(both.some(({ id }) => id === flow.id));
        }
        const [one, other] = before;
        assert.ok(one && other);
        // A flow with the same tuple that is a later one stays.
        assert.equal(await tracker.ask({ kind: 'delete', flow: { ...one, id: (one.id + 1) >>> 0 } }), false);
        assert.equal(await tracker.ask({ kind: 'delete', flow: one }), true);
        assert.equal(await tracker.ask({ kind: 'delete', flow: one }), false);
        assert.deepEqual(
          (await listed()).map(({ id }) => id),
          [other.id],
        );
      }
    });

    it(`tells the state of a TCP connection (${kind})`, async () => {
      await using box = await createBox(kind);
      await using network = await createNetwork(box);
      await succeed(box.run('nft', ['-f', '-'], { input: MASQUERADE }));
      await using tracker = await startTracker(box);
      await network.sourcesSeen([OUTSIDE.IPv4], { protocol: 'tcp' });
      const flows = await tracker.ask<readonly Flow[]>({ kind: 'read' });
      const value = parseAddress(OUTSIDE.IPv4)?.value;
      const [flow] = flows.filter(
        ({ protocol, original }) => protocol === 6 && original.destination === value,
      );
      // From ESTABLISHED on, whatever of the end has been seen already.
      assert.ok(
        flow?.tcpState !== undefined && flow.tcpState >= 3 && flow.tcpState <= 8,
        `${flow?.tcpState}`,
      );
    });
  }
});
