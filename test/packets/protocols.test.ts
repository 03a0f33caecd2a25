import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { sourcesOfPings } from '../lab/icmp.ts';
import { NODE, POD } from '../lab/network.ts';
import { configOf, createPacketLab, DATAPLANES, NO_LAB, sync } from './support.ts';

const CONFIG = configOf(`
nonMasqueradeCIDRs: [10.0.0.0/8, 10.20.30.0/24, fd00::/8, fd00:20:30::/48]
masqueradeCIDRs: [10.20.0.0/16, fd00:20::/32, 2001:db8:9::1/128]
`);

/** Destinations, and the source that they shall see. */
const DESTINATIONS: readonly (readonly [destination: string, source: string])[] = [
  ['10.1.2.3', POD.IPv4],
  ['10.19.255.255', POD.IPv4],
  ['10.20.0.0', NODE.IPv4],
  ['10.20.29.255', NODE.IPv4],
  ['10.20.30.0', POD.IPv4],
  ['10.20.30.255', POD.IPv4],
  ['10.20.31.0', NODE.IPv4],
  ['10.21.0.0', POD.IPv4],
  ['11.0.0.0', NODE.IPv4],
  ['169.254.169.254', POD.IPv4],
  ['203.0.113.9', NODE.IPv4],
  ['fd00:1::1', POD.IPv6],
  ['fd00:20::1', NODE.IPv6],
  ['fd00:20:30::1', POD.IPv6],
  ['fd00:21::', POD.IPv6],
  ['2001:db8:9::1', NODE.IPv6],
  ['2606:4700::1', NODE.IPv6],
];

const to = DESTINATIONS.map(([destination]) => destination);
const wanted = Object.fromEntries(DESTINATIONS);

describe('one config means the same for every protocol', { concurrency: true, skip: NO_LAB }, () => {
  for (const kind of DATAPLANES) {
    for (const toPorts of [[], [{ first: 2000, last: 2999 }]]) {
      it(`with ${kind.name}${toPorts.length > 0 ? ', ports from a range' : ''}`, async () => {
        await using lab = await createPacketLab(kind, { toPorts });
        const { network } = lab;
        await sync(lab.dataplane, CONFIG);
        for (const protocol of ['udp', 'tcp'] as const) {
          const seen = await network.sourcesSeen(to, { protocol });
          assert.deepEqual(byDestination(seen.map(({ address }) => address)), wanted, protocol);
        }
        const pings = await sourcesOfPings(network.pod, network.outside, to);
        assert.deepEqual(Object.fromEntries(pings), wanted, 'icmp');
      });
    }
  }
});

function byDestination(sources: readonly string[]): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(to.map((destination, index) => [destination, sources[index]]));
}
