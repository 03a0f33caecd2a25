import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Family, formatAddress, parseAddress } from '../../lib/cidr/address.ts';
import type { Flow } from '../../lib/netlink/conntrack.ts';
import { createNode, inside } from '../e2e/support.ts';
import { FAMILIES } from '../kernel/support.ts';
import { startTracker } from '../lab/helpers.ts';
import { createNetwork, GATEWAY, NODE, OUTSIDE, POD } from '../lab/network.ts';
import { ip } from '../lab/pod-links.ts';
import { NO_LAB } from './support.ts';

const DESTINATION = { IPv4: '203.0.113.9', IPv6: '2606:4700::1' } as const;
/** Addresses of the wire alone, to which nobody behind it has a route. */
const WIRE = { IPv4: '169.254.0.2', IPv6: '2001:db8:a::2' } as const;

/** Of masqueradeAddresses: destination and address. */
const REMEDY = { IPv4: ['0.0.0.0/0', '192.0.2.0/24'], IPv6: ['::/0', '2001:db8::/64'] } as const;

const onLo = {
  IPv4: `address add ${NODE.IPv4}/32 dev lo`,
  IPv6: `address add ${NODE.IPv6}/128 dev lo nodad`,
};
const uplink = (family: Family, more = '') =>
  `route add default via ${OUTSIDE[family]} dev uplink0 onlink ${more}`;

/** A node whose address is not on the link to the outside, as with BGP to the node: what is set, and what becomes of packets. */
const CASES: readonly (readonly [
  name: string,
  family: Family,
  settings: readonly string[],
  /** Undefined if they do not arrive. */
  source: string | RegExp | undefined,
  /** What doctor says; undefined if nothing. */
  said: RegExp | undefined,
])[] = [
  ['is on lo', 'IPv4', [onLo.IPv4, uplink('IPv4', `src ${NODE.IPv4}`)], NODE.IPv4, undefined],
  ['is on lo', 'IPv6', [onLo.IPv6, uplink('IPv6')], NODE.IPv6, undefined],
  [
    'has the scope host',
    'IPv4',
    [`${onLo.IPv4} scope host`, uplink('IPv4', `src ${NODE.IPv4}`)],
    GATEWAY.IPv4,
    /a masqueraded packet leaves by uplink0 with 10\.244\.1\.1 of another link, one that the node itself sends with 192\.0\.2\.1/,
  ],
  [
    'has another end, which is the gateway',
    'IPv4',
    [
      'address add 169.254.9.9/24 dev uplink0',
      'address add 169.254.7.7 peer 169.254.0.1/32 dev uplink0',
      'route add default via 169.254.0.1',
    ],
    '169.254.7.7',
    undefined,
  ],
  [
    'is one of two, of which the label decides (RFC 6724)',
    'IPv6',
    [
      'address add 2002:c000:201::1/64 dev uplink0 nodad',
      'address add 2a00:1::1/64 dev uplink0 nodad',
      uplink('IPv6'),
    ],
    '2a00:1::1',
    undefined,
  ],
  [
    'is on lo, and the link has another one',
    'IPv4',
    [onLo.IPv4, `address add ${WIRE.IPv4}/30 dev uplink0`, uplink('IPv4', `src ${NODE.IPv4}`)],
    WIRE.IPv4,
    /a masqueraded packet leaves by uplink0 with 169\.254\.0\.2, one that the node itself sends with 192\.0\.2\.1/,
  ],
  [
    'is on lo, and the link has another one',
    'IPv6',
    [onLo.IPv6, `address add ${WIRE.IPv6}/127 dev uplink0 nodad`, uplink('IPv6', `src ${NODE.IPv6}`)],
    WIRE.IPv6,
    /a masqueraded packet leaves by uplink0 with 2001:db8:a::2, one that the node itself sends with 2001:db8::1/,
  ],
  [
    'is absent',
    'IPv6',
    [`address del ${GATEWAY.IPv6}/64 dev pod0`, 'address add fe80::1/64 dev pod0', uplink('IPv6')],
    /^fe80:/,
    /a masqueraded packet leaves by uplink0 with a link-local address, which no router forwards/,
  ],
];

describe('a tunnel without an address, to which a mark leads packets', { skip: NO_LAB }, () => {
  it('is a finding of doctor and at the start, with the address that they get, by routes of any length', async () => {
    await using node = await createNode();
    await using network = await createNetwork(node.box);
    await using tracker = await startTracker(node.box);
    await ip(
      node.box,
      'link add mesh0 type veth peer name mesh1',
      'link set mesh0 up',
      'link set mesh1 up',
      'route add default dev mesh0 table 180',
      'rule add fwmark 0x20/0x20 lookup 180',
    );
    await node.volume({ 'ip-masq-x': inside('10.0.0.0/8') });
    const agent = node.start('--backend=nftables');
    await agent.logged(
      /a masqueraded packet leaves by mesh0 \(routing table 180\) with [\d.]+ of another link; give the link an address/,
    );
    const { stdout } = await node.agent('explain', '--live', `--from=${POD.IPv4}`, DESTINATION.IPv4);
    const [, foretold] =
      /, but with the mark 0x20\/0x20 by mesh0 \(routing table 180\) with ([\d.]+) of another link/.exec(
        stdout,
      ) ?? [];
    await node.run('iptables', ...'-t mangle -A PREROUTING -i pod0 -j MARK --set-mark 0x20'.split(' '));
    await assert.rejects(network.sourceSeen(DESTINATION.IPv4), /no packet .* arrives/);
    const to = parseAddress(DESTINATION.IPv4)?.value;
    const flows = await tracker.ask<readonly Flow[]>({ kind: 'read', family: 'IPv4' });
    const left = flows
      .filter(({ original }) => original.destination === to)
      .map(({ reply }) => formatAddress({ family: 'IPv4', value: reply.destination }));
    assert.deepEqual([...new Set(left)], [foretold]);
    await agent.stop();
    const found = async () => (await node.agent('doctor', '--backend=nftables')).stdout;
    assert.match(
      await found(),
      /^uplink-address .*a masqueraded packet leaves by mesh0 \(routing table 180\) with [\d.]+ of another link.*\n.*masqueradeFromCIDRs/m,
    );
    await ip(
      node.box,
      'route replace 198.18.0.0/15 dev mesh0 table 180',
      'route replace 10.9.0.0/16 dev mesh0 table 181',
      'route del default dev mesh0 table 180',
    );
    const one = await found();
    assert.match(
      one,
      /^uplink-address .*a masqueraded packet to 198\.18\.0\.0\/15 leaves by mesh0 \(routing table 180\)/m,
    );
    assert.doesNotMatch(one, /10\.9\.0\.0/);
    await ip(node.box, 'address add 198.51.100.7/24 dev mesh0');
    assert.doesNotMatch(await found(), /^uplink-address/m);
  });
});

describe('masqueraded packets of a node whose address', { concurrency: true, skip: NO_LAB }, () => {
  for (const [name, family, settings, source, said] of CASES.filter(([, family]) =>
    FAMILIES.includes(family),
  ))
    it(`${name}: ${family}`, { skip: NO_LAB }, async () => {
      await using node = await createNode();
      await using network = await createNetwork(node.box);
      const cidr = family === 'IPv4' ? `${NODE.IPv4}/24` : `${NODE.IPv6}/64`;
      await ip(node.box, `address del ${cidr} dev uplink0`);
      // The default route is gone with the address of IPv4.
      if (family === 'IPv6') await ip(node.box, 'route del default via 2001:db8::fe dev uplink0');
      await ip(node.box, ...settings);
      await ip(
        network.outside,
        'address add 169.254.0.1/32 dev eth0',
        'route add 169.254.0.0/16 dev eth0 table local',
      );
      if (source instanceof RegExp) await ip(network.pod, 'route replace default via fe80::1 dev eth0');
      const flags = ['--enable-ipv6', '--backend=nftables'];
      const explained = async () => {
        const { stdout } = await node.agent(
          'explain',
          ...flags,
          '--live',
          `--from=${POD[family]}`,
          DESTINATION[family],
        );
        // Below, it says with which address the packet before has left.
        return /^ *leaves by .*$/m.exec(stdout)?.[0] ?? stdout;
      };
      const found = async () => {
        const { stdout } = await node.agent('doctor', ...flags);
        return /^uplink-address.*\n(?: .*\n)*/m.exec(stdout)?.[0] ?? '';
      };
      const arrivesFrom = () =>
        network.sourceSeen(DESTINATION[family]).then(
          ({ address }) => address,
          () => undefined,
        );

      await node.volume({ 'ip-masq-x': inside('10.0.0.0/8', 'fd00::/8') });
      assert.equal((await node.agent('--once', ...flags)).code, 0);
      const seen = await arrivesFrom();
      if (source instanceof RegExp) assert.match(seen ?? '', source);
      else assert.equal(seen, source);
      if (said === undefined) assert.equal(await found(), '');
      else assert.match(await found(), said);
      const leaves = {
        string: `with ${source}`,
        undefined: 'which has no address for it: the kernel drops it',
      };
      const text = leaves[typeof source as 'string' | 'undefined'] ?? 'with a link-local address';
      assert.ok((await explained()).includes(text), await explained());
      if (said === undefined || source instanceof RegExp) return;
      const [everything, range] = REMEDY[family];
      await node.volume({
        'ip-masq-x': `masqueradeAddresses: [{destination: "${everything}", address: "${range}"}]`,
      });
      assert.equal((await node.agent('--once', ...flags)).code, 0);
      assert.deepEqual([await arrivesFrom(), await found()], [NODE[family], '']);
    });
});
