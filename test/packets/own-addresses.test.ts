import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Family } from '../../lib/cidr/address.ts';
import { FAMILIES } from '../kernel/support.ts';
import { GATEWAY, NODE, POD } from '../lab/network.ts';
import { ip } from '../lab/pod-links.ts';
import { type Seen, startWitness } from '../lab/volley.ts';
import { configOf, createPacketLab, DATAPLANES, NO_LAB, sync } from './support.ts';

const EVERYTHING = configOf(`
masqueradeCIDRs: [0.0.0.0/0, "::/0"]
masqLinkLocal: true
masqLinkLocalIPv6: true
`);

/** The node also has an address on no wire, as kube-proxy in IPVS mode makes them, and takes a whole range for its own. */
const EXTRA = { IPv4: '10.96.0.10', IPv6: 'fd00:96::10' } as const;
const RANGE = {
  IPv4: { prefix: '198.51.100.0/24', address: '198.51.100.77' },
  IPv6: { prefix: 'fd00:100::/64', address: 'fd00:100::77' },
} as const;
const LOOPBACK = { IPv4: '127.0.0.1', IPv6: '::1' } as const;

const OUTSIDE = { IPv4: '203.0.113.9', IPv6: '2606:4700::1' } as const;
const PORT = 31_000;
const PROTOCOLS = ['udp', 'tcp'] as const;

describe('where everything is masqueraded', { concurrency: true, skip: NO_LAB }, () => {
  for (const kind of DATAPLANES) {
    it(`traffic to the node's own addresses keeps its source: ${kind.name}`, async () => {
      await using lab = await createPacketLab(kind);
      const { node, pod } = lab.network;
      await ip(
        node,
        `address add ${EXTRA.IPv4}/32 dev lo`,
        `address add ${EXTRA.IPv6}/128 dev lo`,
        `route add local ${RANGE.IPv4.prefix} dev lo`,
        `route add local ${RANGE.IPv6.prefix} dev lo`,
      );
      await sync(lab.dataplane, EVERYTHING);
      await using witness = await startWitness(node);
      await using fromPod = await witness.openSender(pod);
      await using fromNode = await witness.openSender(node);
      await using toOutside = await lab.network.witness.openSender(node);

      for (const family of FAMILIES) {
        const own = ownAddresses(family);
        for (const protocol of PROTOCOLS) {
          const kept = async (address: string, seen: Promise<readonly Seen[]>) => {
            const source = { address, port: PORT };
            assert.deepEqual(await seen, Array(own.length).fill(source), `${protocol} from ${address}`);
          };
          const from = (address: string) => ({ protocol, source: { address, port: PORT } });
          await kept(POD[family], fromPod.sourcesSeen(own, from(POD[family])));
          for (const address of [...own, LOOPBACK[family]]) {
            await kept(address, fromNode.sourcesSeen(own, from(address)));
          }
          // The rules are in force: what leaves the node is masqueraded, also where the node itself sends it.
          for (const seen of [
            await lab.network.sourcesSeen([OUTSIDE[family]], { protocol }),
            await toOutside.sourcesSeen([OUTSIDE[family]], from(GATEWAY[family])),
          ]) {
            assert.deepEqual(
              seen.map(({ address }) => address),
              [NODE[family]],
            );
          }
        }
      }
    });
  }
});

function ownAddresses(family: Family): readonly string[] {
  return [GATEWAY[family], NODE[family], EXTRA[family], RANGE[family].address];
}
