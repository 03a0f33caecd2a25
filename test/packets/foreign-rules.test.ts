import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createNode, inside, type NodeLab } from '../e2e/support.ts';
import { createNetwork, NODE, POD } from '../lab/network.ts';
import { succeed } from '../lab/run.ts';
import { NO_LAB } from './support.ts';

const OUTSIDE = '203.0.113.9';
const NFTABLES = '--backend=nftables';
const IPTABLES = '--backend=iptables';
const LEGACY = '--iptables-mode=legacy';
const OTHER = '192.0.2.77';

type Case = readonly [
  name: string,
  backend: string,
  command: readonly [file: string, ...args: string[]],
  source: string,
  /** What explain and doctor say; undefined if nothing. */
  said?: RegExp,
];

const nat = (...rule: string[]) => ['iptables', '-t', 'nat', '-I', 'POSTROUTING', ...rule] as const;
const raw = (...rule: string[]) => ['iptables', '-t', 'raw', '-A', 'PREROUTING', ...rule] as const;
const EXEMPTS = /-A POSTROUTING .*-j (?:ACCEPT|RETURN|SNAT)/;

const CASES: readonly Case[] = [
  ['a pod is accepted', IPTABLES, nat('-s', POD.IPv4, '-j', 'ACCEPT'), POD.IPv4, EXEMPTS],
  ['a link is returned', IPTABLES, nat('-o', 'uplink0', '-j', 'RETURN'), POD.IPv4, EXEMPTS],
  ['a protocol is accepted', IPTABLES, nat('-p', 'udp', '-j', 'ACCEPT'), POD.IPv4, EXEMPTS],
  ['a destination is accepted', IPTABLES, nat('-d', OUTSIDE, '-j', 'ACCEPT'), POD.IPv4, EXEMPTS],
  [
    'another address is given',
    IPTABLES,
    nat('-s', POD.IPv4, '-j', 'SNAT', '--to-source', OTHER),
    OTHER,
    EXEMPTS,
  ],
  [
    "the node's own address is given",
    IPTABLES,
    nat('-s', POD.IPv4, '-j', 'SNAT', '--to-source', NODE.IPv4),
    NODE.IPv4,
  ],
  ['loopback is accepted', IPTABLES, nat('-s', '127.0.0.0/8', '-j', 'ACCEPT'), NODE.IPv4],
  ['iptables accepts what nftables masquerades', NFTABLES, nat('-s', POD.IPv4, '-j', 'ACCEPT'), NODE.IPv4],
  [
    'another address is given before nftables',
    NFTABLES,
    nat('-s', POD.IPv4, '-j', 'SNAT', '--to-source', OTHER),
    OTHER,
    EXEMPTS,
  ],
  // https://github.com/cilium/cilium/issues/16046
  [
    'pods are not tracked',
    IPTABLES,
    raw('-s', '10.244.0.0/16', '-j', 'CT', '--notrack'),
    POD.IPv4,
    /iptables \(nft\) raw PREROUTING[\s\S]*handle \d/,
  ],
  [
    'pods are not tracked before nftables',
    NFTABLES,
    raw('-s', '10.244.0.0/16', '-j', 'CT', '--notrack'),
    POD.IPv4,
    /only if: source 10\.244\.0\.0\/16/,
  ],
  // https://github.com/hanselime/paqet/issues/39
  [
    'a port is not tracked in legacy mode',
    LEGACY,
    ['iptables-legacy', '-t', 'raw', '-A', 'PREROUTING', '-p', 'udp', '--dport', '4000', '-j', 'NOTRACK'],
    POD.IPv4,
    /iptables \(legacy\) raw PREROUTING[\s\S]*only if: protocol udp; udp dport 4000/,
  ],
  ['loopback is not tracked', IPTABLES, raw('-s', '127.0.0.0/8', '-j', 'CT', '--notrack'), NODE.IPv4],
  ['zones are tracked', IPTABLES, raw('-s', '10.244.0.0/16', '-j', 'CT', '--zone', '7'), NODE.IPv4],
  [
    'a table of nftables does not track them',
    IPTABLES,
    [
      'nft',
      'add table inet r; add chain inet r pre { type filter hook prerouting priority raw; }; add rule inet r pre iifname "pod0" ip saddr 10.244.0.0/16 ip protocol udp notrack',
    ],
    POD.IPv4,
    /nftables inet r pre/,
  ],
];

async function explained(node: NodeLab, backend: string): Promise<string> {
  const flags = ['--live', `--from=${POD.IPv4}`, backend, OUTSIDE];
  return (await node.agent('explain', ...flags)).stdout;
}

describe('foreign rules that keep packets from getting an address of the node', { skip: NO_LAB }, () => {
  for (const [name, backend, [file, ...args], source, said] of CASES)
    it(`are told, with what happens to a packet: ${name}`, async () => {
      await using node = await createNode();
      await using network = await createNetwork(node.box);
      await node.volume({ 'ip-masq-x': inside('10.0.0.0/8') });
      assert.equal((await node.agent('--once', backend)).code, 0);
      const before = await explained(node, backend);
      assert.match(
        before,
        /is masqueraded[\s\S]*kernel agrees[\s\S]*leaves by uplink0 through 192\.0\.2\.254 with 192\.0\.2\.1\n/,
      );
      await succeed(node.box.run(file, args));
      assert.equal((await network.sourceSeen(OUTSIDE)).address, source);
      const after = await explained(node, backend);
      const doctor = (await node.agent('doctor', backend)).stdout;
      const [exemption = ''] = /^foreign-exemption.*\n(?: .*\n)*/m.exec(doctor) ?? [];
      if (said === undefined) {
        assert.match(after, /kernel agrees/);
        assert.equal(exemption, '');
      } else {
        assert.doesNotMatch(after, /kernel agrees/);
        assert.match(after, /but a rule of .* may keep it/);
        assert.match(`${exemption}`, said);
      }
    });

  // https://github.com/aws/amazon-vpc-cni-k8s/issues/3800
  it('may be marks that route packets elsewhere: explain says by which link', async () => {
    await using node = await createNode();
    await using network = await createNetwork(node.box);
    await node.volume({ 'ip-masq-x': inside('10.0.0.0/8') });
    assert.equal((await node.agent('--once', IPTABLES)).code, 0);
    const settings = [
      'link add second0 type veth peer name second1',
      'link set second0 up',
      'link set second1 up',
      'address add 198.51.100.7/24 dev second0',
      'route add default via 198.51.100.9 dev second0 table 100',
      'rule add fwmark 0x80/0x80 lookup 100',
      'rule add fwmark 0x40000/0xff0000 lookup main',
      'rule add fwmark 0x5 unreachable',
    ];
    await succeed(node.box.run('ip', ['-batch', '-'], { input: `${settings.join('\n')}\n` }));
    assert.equal((await network.sourceSeen(OUTSIDE)).address, NODE.IPv4);
    assert.match(
      await explained(node, IPTABLES),
      /leaves by uplink0 through 192\.0\.2\.254 with 192\.0\.2\.1, but .*with the mark 0x80\/0x80 by second0 through 198\.51\.100\.9 \(routing table 100\)\n/,
    );
    assert.match(await explained(node, IPTABLES), /, but with the mark 0x5\/0xffffffff nowhere/);
    const accept = (link: string) => node.iptables('-I', 'POSTROUTING', '-o', link, '-j', 'ACCEPT');
    await accept('other0');
    assert.doesNotMatch(await explained(node, IPTABLES), /other0/);
    await accept('second0');
    assert.match(await explained(node, IPTABLES), /but a rule of .* may keep it.*\n.*-o second0/);
    await node.iptables('-D', 'POSTROUTING', '1');
    const marked = 'iptables -t mangle -A PREROUTING -i pod0 -j MARK --set-mark 0x80/0x80'.split(' ');
    await succeed(node.box.run(marked[0] ?? '', marked.slice(1)));
    await assert.rejects(network.sourceSeen(OUTSIDE), /no packet .* arrives/);
  });
});
