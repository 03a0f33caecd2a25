import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { compilePolicy } from '../../lib/policy/policy.ts';
import { FAMILIES, type Family, IP, syncOnce } from '../kernel/support.ts';
import { GATEWAY, type Network, NODE, OUTSIDE } from '../lab/network.ts';
import { ip } from '../lab/pod-links.ts';
import { succeed } from '../lab/run.ts';
import { startStreams } from '../lab/stream.ts';
import type { Seen } from '../lab/volley.ts';
import { addressFrom } from '../unit/cidr/support.ts';
import { configOf, createPacketLab, DATAPLANES, NO_LAB, type PacketLab } from './support.ts';

/** A second address of the uplink, an address on no wire, and the address of another uplink, with the outside's there. */
const SECOND = { IPv4: '192.0.2.77', IPv6: '2001:db8::77' } as const;
const WIRELESS = { IPv4: '198.18.0.1', IPv6: '2001:db8:18::1' } as const;
const OTHER = { IPv4: '198.51.100.1', IPv6: '2001:db8:1::1' } as const;
const BEYOND = { IPv4: '198.51.100.254', IPv6: '2001:db8:1::fe' } as const;
const BITS = { IPv4: [24, 32], IPv6: [64, 128] } as const;

/** Each for the rule of another program of this name, or for none. */
const TO = {
  anywhere: { IPv4: '203.0.113.1', IPv6: '2606:4700::1' },
  inside: { IPv4: '10.1.1.1', IPv6: 'fd00:1::1' },
  withAddress: { IPv4: '203.0.114.1', IPv6: '2606:4701::1' },
  marked: { IPv4: '203.0.113.2', IPv6: '2606:4700::2' },
  translated: { IPv4: '10.96.0.1', IPv6: 'fd00:96::1' },
  service: { IPv4: '10.96.0.2', IPv6: 'fd00:96::2' },
} as const;

const CONFIG = configOf(`
nonMasqueradeCIDRs: [10.0.0.0/8, fd00::/8]
masqueradeAddresses:
  - {destination: 203.0.114.0/24, address: 192.0.2.64/26}
  - {destination: "2606:4701::/32", address: "2001:db8::70/124"}
`);

/** A port that NFS needs. */
const PORT = 700;

type Addresses = Readonly<Record<Family, string>>;

/** From where the node sends, and from where it arrives; with the same port if it is an address of the link. */
const CASES: readonly (readonly [
  what: string,
  from: Addresses,
  to: Addresses,
  seen: Addresses,
  port: 'same' | 'any',
])[] = [
  ['the address of the link', NODE, TO.anywhere, NODE, 'same'],
  ['another address of the link', SECOND, TO.anywhere, SECOND, 'same'],
  ['the address of another link', GATEWAY, TO.anywhere, NODE, 'any'],
  ['an address on no wire', WIRELESS, TO.anywhere, NODE, 'any'],
  ['the address of another link, to where nothing is masqueraded', GATEWAY, TO.inside, GATEWAY, 'same'],
  ['to where masqueradeAddresses names an address', NODE, TO.withAddress, SECOND, 'any'],
  ['a mark that sends it by another link', NODE, TO.marked, OTHER, 'any'],
  ['DNAT in OUTPUT to another link', NODE, TO.translated, OTHER, 'any'],
  ['a Service that kube-proxy masquerades', NODE, TO.service, OTHER, 'any'],
];

describe("the node's own connections", { concurrency: true, skip: NO_LAB }, () => {
  for (const kind of DATAPLANES) {
    it(`leave with an address of their link, and keep that: ${kind.name}`, async () => {
      await using lab = await createPacketLab(kind);
      const { network } = lab;
      await addOtherUplink(network);
      await addForeignRules(network);
      await sync(lab);
      await using sender = await network.witness.openSender(network.node);
      const wrong: string[] = [];
      const check = (what: string, wanted: string, seen: readonly Seen[], port?: number) => {
        const [{ address = '', port: arrived = 0 } = {}] = seen;
        if (address !== wanted || (port !== undefined && arrived !== port))
          wrong.push(`${what}: ${address} ${arrived}, not ${wanted}`);
      };
      for (const [what, from, to, wanted, port] of CASES)
        for (const family of FAMILIES)
          for (const protocol of ['udp', 'tcp'] as const) {
            const source = { address: from[family], port: PORT };
            const seen = await sender.sourcesSeen([to[family]], { protocol, source });
            check(`${what}, ${protocol}`, wanted[family], seen, port === 'same' ? PORT : undefined);
          }
      check(
        'loopback that leads outside (route_localnet)',
        NODE.IPv4,
        await sender.sourcesSeen(['127.0.0.1']),
      );
      const container = { address: '172.17.0.2', port: PORT };
      const seen = await network.sourcesSeen([TO.anywhere.IPv4], { source: container });
      check('a container that Docker masquerades', NODE.IPv4, seen);
      assert.deepEqual(wrong, []);
    });

    it(`go on when the rules come to a node without connection tracking: ${kind.name}`, async () => {
      await using lab = await createPacketLab(kind);
      const { node, outside } = lab.network;
      await using streams = await startStreams(node, outside);
      const destinations = [1, 2, 3, 4].flatMap((n) => [`203.0.113.${n}`, `2606:4700::${n}`]);
      await streams.advance(destinations);
      await sync(lab);
      await streams.advance(destinations);
      const accepted = (await streams.accepted()).map(({ address }) => address);
      assert.deepEqual(accepted.toSorted(), [...Array(4).fill(NODE.IPv4), ...Array(4).fill(NODE.IPv6)]);
    });
  }
});

async function sync({ dataplane }: PacketLab): Promise<void> {
  for (const family of FAMILIES) {
    const own = [NODE, SECOND, OTHER].map((one) => addressFrom(one[family]));
    await syncOnce(dataplane, compilePolicy(CONFIG, family, own));
  }
}

async function addOtherUplink({ node, pod, outside }: Network): Promise<void> {
  await ip(
    node,
    `link add uplink1 type veth peer name eth1 netns ${outside.pid}`,
    'link set uplink1 up',
    ...FAMILIES.flatMap((family) => [
      `address add ${OTHER[family]}/${BITS[family][0]} dev uplink1`,
      `address add ${SECOND[family]}/${BITS[family][1]} dev uplink0 preferred_lft 0`,
      `address add ${WIRELESS[family]}/${BITS[family][1]} dev lo`,
      `route add default via ${BEYOND[family]} table 100`,
    ]),
  );
  for (const family of ['-4', '-6'])
    await succeed(node.run('ip', [family, 'rule', 'add', 'fwmark', '7', 'lookup', '100']));
  await ip(
    outside,
    'link set eth1 up',
    ...FAMILIES.flatMap((family) => [
      `address add ${BEYOND[family]}/${BITS[family][0]} dev eth1`,
      // In that table everything is local there.
      `route add ${OTHER[family]}/${BITS[family][1]} dev eth1 table local`,
    ]),
  );
  await ip(pod, 'address add 172.17.0.2/16 dev eth0');
  await ip(node, 'route add 172.17.0.0/16 dev pod0');
}

/** With nft in every dataplane: the kernel does not mind who else has rules. */
async function addForeignRules({ node }: Network): Promise<void> {
  await succeed(node.run('sysctl', ['-qw', 'net.ipv4.conf.all.route_localnet=1']));
  const rules = FAMILIES.map((family) => {
    const to = (which: keyof typeof TO) => `${IP[family]} daddr ${TO[which][family]}`;
    return `table ${IP[family]} foreign {
      chain rerouting { type route hook output priority -150; ${to('marked')} meta mark set 7; }
      chain output {
        type nat hook output priority -100;
        ${to('translated')} dnat to ${BEYOND[family]}
        ${to('service')} meta mark set mark or 0x4000 dnat to ${BEYOND[family]}
        ${family === 'IPv4' ? `ip daddr 127.0.0.1 dnat to ${OUTSIDE.IPv4}` : ''}
      }
      chain postrouting {
        type nat hook postrouting priority srcnat;
        meta mark and 0x4000 != 0 meta mark set mark xor 0x4000 masquerade fully-random
        ${family === 'IPv4' ? 'ip saddr 172.17.0.0/16 oifname != "docker0" masquerade' : ''}
      }
    }`;
  });
  await succeed(node.run('nft', ['-f', '-'], { input: `${rules.join('\n')}\n` }));
}
