import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FAMILIES } from '../kernel/support.ts';
import { kubeProxyTable } from '../lab/kube-proxy.ts';
import { NODE } from '../lab/network.ts';
import { succeed } from '../lab/run.ts';
import { configOf, createPacketLab, NFTABLES, NO_LAB, type PacketLab, sync } from './support.ts';

const CONFIG = configOf('nonMasqueradeCIDRs: [10.0.0.0/8, fd00::/8]\n');
const OUTSIDE = { IPv4: '203.0.113.9', IPv6: '2606:4700::1' } as const;
const INSIDE = { IPv4: '10.1.1.1', IPv6: 'fd00:1::1' } as const;

const TABLES = ['ip', 'ip6'] as const;

const KUBE_PROXY = forBoth(kubeProxyTable);

/** Marks what comes from the pod, as kube-proxy does with packets to some Services; counts what leaves with the mark. */
const MARKS = forBoth(
  (ip) => `
    table ${ip} marks {
      counter marked { }
      counter unmarked { }
      chain forward { type filter hook forward priority 0; iifname "pod0" meta mark set meta mark | 0x4000; }
      chain leaving {
        type filter hook postrouting priority 300
        oifname "uplink0" meta l4proto udp meta mark & 0x4000 != 0 counter name marked
        oifname "uplink0" meta l4proto udp meta mark & 0x4000 == 0 counter name unmarked
      }
    }`,
);

describe('kube-proxy in nftables mode', { skip: NO_LAB }, () => {
  it('sees packets before the agent does, whichever of the two started last', async () => {
    await using lab = await createPacketLab(NFTABLES);
    await nft(lab, MARKS);
    await sync(lab.dataplane, CONFIG);
    let packets = 0;
    const assertUnmarked = async (what: string) => {
      for (const family of FAMILIES) {
        const seen = await lab.network.sourcesSeen([OUTSIDE[family], INSIDE[family]]);
        const addresses = seen.map(({ address }) => address);
        assert.deepEqual(addresses, [NODE[family], NODE[family]], what);
      }
      packets += 2;
      const counts = TABLES.map((ip) => ({ ip, marked: 0, unmarked: packets }));
      assert.deepEqual(await counters(lab), counts, what);
    };
    await nft(lab, KUBE_PROXY);
    await assertUnmarked('kube-proxy after the agent');
    await nft(
      lab,
      forBoth((ip) => `delete table ${ip} ip-masq-agent`),
    );
    await sync(lab.dataplane, CONFIG);
    await assertUnmarked('the agent after kube-proxy');
    await nft(lab, `${forBoth((ip) => `delete table ${ip} kube-proxy`)}${KUBE_PROXY}`);
    await assertUnmarked('kube-proxy again');
  });
});

function forBoth(text: (ip: (typeof TABLES)[number]) => string): string {
  return TABLES.map((ip) => `${text(ip)}\n`).join('');
}

async function nft({ network }: PacketLab, script: string): Promise<void> {
  await succeed(network.node.run('nft', ['-f', '-'], { input: script }));
}

async function counters({ network }: PacketLab) {
  const read = async (ip: string, name: string) => {
    const { stdout } = await network.node.run('nft', ['list', 'counter', ip, 'marks', name]);
    return Number(/packets (\d+)/.exec(stdout)?.[1]);
  };
  return await Promise.all(
    TABLES.map(async (ip) => ({
      ip,
      marked: await read(ip, 'marked'),
      unmarked: await read(ip, 'unmarked'),
    })),
  );
}
