import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type BoxKind, createBox } from '../lab/box.ts';
import { ip } from '../lab/pod-links.ts';
import { succeed } from '../lab/run.ts';
import { BOX_KINDS } from './support.ts';

const LIB = new URL('../../lib/', import.meta.url);

/** What asks the node, in JSON: the addresses of the list, and those asked about that are the node's. */
const SCRIPT = `
  const [{ createIsLocal, usableSourceAddresses }, { formatAddress, parseAddress }] = await Promise.all([
    import(${JSON.stringify(new URL('node/own-addresses.ts', LIB))}),
    import(${JSON.stringify(new URL('cidr/address.ts', LIB))}),
  ]);
  const asked = process.argv.slice(1);
  const isOwn = createIsLocal();
  console.log(JSON.stringify({
    list: usableSourceAddresses().map(formatAddress),
    ranks: usableSourceAddresses().map(({ rank }) => rank),
    own: asked.filter((text) => isOwn(parseAddress(text))),
  }));`;

const LOCAL = [
  '127.0.0.1',
  '127.9.9.9',
  '::1',
  '198.51.100.7',
  '192.0.2.77',
  '203.0.113.7',
  '2001:db8::7',
  '2001:db8:1::77',
  '2001:db8:2::7',
];
const OTHERS = [
  '198.51.100.8',
  '192.0.3.1',
  '203.0.113.8',
  '8.8.8.8',
  '2001:db8:3::1',
  '10.0.0.1',
  'fd00::1',
];

/** What a node says after commands of ip(8). @param asked the addresses to ask about */
async function nodeWith(kind: BoxKind, commands: readonly string[], asked: readonly string[] = []) {
  await using box = await createBox(kind);
  // The search for a duplicate of an address (RFC 4862) lasts longer than the test.
  const settings = ['dad_transmits=1000', 'optimistic_dad=1'].map((one) => `net.ipv6.conf.default.${one}`);
  await succeed(box.run('sysctl', ['-qw', ...settings]));
  await ip(box, ...commands);
  const args = ['--input-type=module', '--eval', SCRIPT, ...asked];
  const { list, ranks, own } = JSON.parse(await succeed(box.run(process.execPath, args)));
  const ranked = list.map((text: string, index: number) => [text, ranks[index]]);
  return { list, own, ranks: Object.fromEntries(ranked) as Readonly<Record<string, number>> };
}

for (const kind of BOX_KINDS)
  describe(`the node's own addresses, ${kind}`, () => {
    it('are those of its links and those made local, and nothing else that it has a route to', async () => {
      const commands = [
        'address add 198.51.100.7/32 dev lo',
        'address add 2001:db8::7/128 dev lo',
        'route add local 192.0.2.0/24 dev lo',
        'route add local 203.0.113.7 dev lo',
        'route add local 2001:db8:1::/64 dev lo',
        'route add local 2001:db8:2::7 dev lo',
        'route add 10.0.0.0/8 dev lo',
        'route add unreachable fd00::/64',
      ];
      const { list, own } = await nodeWith(kind, commands, [...LOCAL, ...OTHERS]);
      assert.deepEqual(own, LOCAL);
      // Packets can leave with what is one address.
      assert.deepEqual(list, ['198.51.100.7', '2001:db8::7', '203.0.113.7', '2001:db8:2::7']);
    });

    it('are none that another host may have, as long as the kernel looks for one, unless they are optimistic', async () => {
      const { list } = await nodeWith(kind, [
        'link add eth0 type veth peer name eth1',
        'link set eth1 up',
        'link set eth0 up',
        'address add 2001:db8::1/64 dev eth0 nodad',
        'address add 2001:db8::2/64 dev eth0',
        'address add 2001:db8::3/64 dev eth0 optimistic',
      ]);
      assert.deepEqual(list.toSorted(), ['2001:db8::1', '2001:db8::3']);
    });

    it('are ranked: deprecated is worse than secondary, secondary worse than a host prefix', async () => {
      const { ranks } = await nodeWith(kind, [
        'address add 198.51.100.1/24 dev lo',
        'address add 198.51.100.2/24 dev lo',
        'address add 198.51.100.3/32 dev lo',
        'address add 192.0.2.1/24 dev lo preferred_lft 0',
        'address add 2001:db8::1/64 dev lo',
        'address add 2001:db8::2/128 dev lo preferred_lft 0',
        'address add 203.0.113.1 peer 203.0.113.2/32 dev lo',
      ]);
      assert.deepEqual(ranks, {
        '198.51.100.1': 0,
        '198.51.100.2': 2,
        '198.51.100.3': 1,
        '192.0.2.1': 4,
        '2001:db8::1': 0,
        '2001:db8::2': 5,
        '203.0.113.1': 1,
      });
    });

    for (const [name, link, made, local = ''] of [
      ['of a load balancer of GCE', '10.128.0.4', '10.128.0.3', 'proto 66'],
      ['of a load balancer of GCE, of IPv6', '2001:db8::7', '2001:db8::3', 'proto 66'],
      ['beside a deprecated one', '10.0.0.9', '10.0.0.1'],
      ['that somebody has added by hand', '10.0.0.9', '10.0.0.1', 'scope host'],
    ] as const)
      it(`are ranked: any of a link is better than one that only a route makes local, ${name}`, async () => {
        const lifetime = name === 'beside a deprecated one' ? 'preferred_lft 0' : '';
        const { ranks } = await nodeWith(kind, [
          `address add ${link}/${link.includes(':') ? 128 : 32} dev lo ${lifetime}`,
          `route add local ${made} dev lo ${local}`,
        ]);
        const { [link]: better = Number.NaN, [made]: worse = Number.NaN } = ranks;
        assert.ok(better < worse, JSON.stringify(ranks));
      });
  });
