import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { COMMON } from '../lab/kube-proxy.ts';
import { type Network, NODE, POD } from '../lab/network.ts';
import { succeed } from '../lab/run.ts';
import { type Streams, startStreams } from '../lab/stream.ts';
import { configOf, createPacketLab, DATAPLANES, NO_LAB, openDataplane, remove, sync } from './support.ts';

const SYNCS = 20;

/** The verdict on these changes with every config that is `configText` of the next number. */
const CHANGING = ['10.20.0.1', '10.30.0.1', 'fd00:20::1', 'fd00:30::1'];
/** What they arrive from where the number is even, and where it is odd. */
const SOURCES = [
  [NODE.IPv4, POD.IPv4, NODE.IPv6, POD.IPv6],
  [POD.IPv4, NODE.IPv4, POD.IPv6, NODE.IPv6],
] as const;

/** The verdict on these is always the same. */
const STEADY = {
  '10.1.1.1': POD.IPv4,
  '203.0.113.9': NODE.IPv4,
  'fd00:1::1': POD.IPv6,
  '2606:4700::1': NODE.IPv6,
};

function configText(number: number): string {
  const exception = number % 2 === 0 ? 20 : 30;
  return JSON.stringify({
    nonMasqueradeCIDRs: ['10.0.0.0/8', `172.16.${number}.0/24`, 'fd00::/8', `2001:db8:${number}::/48`],
    masqueradeCIDRs: [`10.${exception}.0.0/16`, `fd00:${exception}::/32`],
  });
}

describe('established connections go on, byte for byte, and new ones meet complete rules', {
  concurrency: true,
  skip: NO_LAB,
}, () => {
  for (const kind of DATAPLANES) {
    it(`through ${SYNCS} syncs that change what happens to them, and when all is removed: ${kind.name}`, async () => {
      await using lab = await createPacketLab(kind);
      const { network, host, dataplane } = lab;
      /** Now and then another flag changes all rules at once, and not only those of the config. */
      const otherwise = await openDataplane(kind, host, { randomFully: false });
      await sync(dataplane, configOf(configText(0)));
      await using streams = await openStreams(network);
      await whileWatching(network, async () => {
        for (let number = 1; number <= SYNCS; number += 1) {
          await sync(number % 10 === 0 ? otherwise : dataplane, configOf(configText(number)));
          assert.deepEqual(await sources(network, CHANGING), SOURCES[number % 2], `config ${number}`);
          await streams.advance(CHANGING);
        }
      });
      await addKubeProxy(network);
      await remove(dataplane);
      await streams.advance(CHANGING);
      assert.deepEqual(await sources(network, CHANGING), [POD.IPv4, POD.IPv4, POD.IPv6, POD.IPv6]);
      await assertSameConnections(streams);
    });
  }
});

/**
 * With the last rule of a network namespace that needs connection tracking the kernel gives up tracking there
 * (nf_ct_netns_put), and with the last NAT chain it gives up NAT (nf_nat_unregister_fn), also of connections that
 * go on. On a node kube-proxy has such rules.
 */
async function addKubeProxy({ node }: Network): Promise<void> {
  const input = ['*nat', ...COMMON, 'COMMIT', ''].join('\n');
  for (const command of ['iptables-nft-restore', 'ip6tables-nft-restore']) {
    await succeed(node.run(command, ['--noflush'], { input }));
  }
}

/** Streams to all whose verdict changes, opened under the config number 0. */
async function openStreams(network: Network): Promise<Streams> {
  const streams = await startStreams(network.pod, network.outside);
  for (const destination of CHANGING) await streams.advance([destination]);
  return streams;
}

async function assertSameConnections(streams: Streams): Promise<void> {
  const accepted = (await streams.accepted()).map(({ address }) => address);
  assert.deepEqual(accepted, SOURCES[0]);
}

async function sources(network: Network, destinations: readonly string[]): Promise<readonly string[]> {
  return (await network.sourcesSeen(destinations)).map(({ address }) => address);
}

/** Sends new packets all the time while something is done: not one may meet no rules, or half of them. */
async function whileWatching(network: Network, work: () => Promise<void>): Promise<void> {
  let done = false;
  let volleys = 0;
  const watch = async () => {
    for (; !done; volleys += 1) {
      assert.deepEqual(await sources(network, Object.keys(STEADY)), Object.values(STEADY));
    }
  };
  const watching = watch();
  watching.catch(() => {}); // told below, once the work has ended
  try {
    await work();
  } finally {
    done = true;
  }
  await watching;
  assert.ok(volleys > SYNCS, `only ${volleys} volleys`);
}
