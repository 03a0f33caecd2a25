import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createBox } from '../lab/box.ts';
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

for (const kind of BOX_KINDS)
  describe(`the node's own addresses, ${kind}`, () => {
    it('are those of its links and those made local, and nothing else that it has a route to', async () => {
      await using box = await createBox(kind);
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
      await succeed(box.run('ip', ['-batch', '-'], { input: `${commands.join('\n')}\n` }));
      const args = ['--input-type=module', '--eval', SCRIPT, ...LOCAL, ...OTHERS];
      const { list, own } = JSON.parse(await succeed(box.run(process.execPath, args)));
      assert.deepEqual(own, LOCAL);
      // Packets can leave with what is one address.
      assert.deepEqual(list, ['198.51.100.7', '2001:db8::7', '203.0.113.7', '2001:db8:2::7']);
    });

    it('are ranked: deprecated is worse than secondary, secondary worse than a host prefix', async () => {
      await using box = await createBox(kind);
      const commands = [
        'address add 198.51.100.1/24 dev lo',
        'address add 198.51.100.2/24 dev lo',
        'address add 198.51.100.3/32 dev lo',
        'address add 192.0.2.1/24 dev lo preferred_lft 0',
        'address add 2001:db8::1/64 dev lo',
        'address add 2001:db8::2/128 dev lo preferred_lft 0',
      ];
      await succeed(box.run('ip', ['-batch', '-'], { input: `${commands.join('\n')}\n` }));
      const args = ['--input-type=module', '--eval', SCRIPT];
      const { list, ranks } = JSON.parse(await succeed(box.run(process.execPath, args)));
      const ranked = list.map((text: string, index: number) => [text, ranks[index]]);
      assert.deepEqual(Object.fromEntries(ranked), {
        '198.51.100.1': 0,
        '198.51.100.2': 2,
        '198.51.100.3': 1,
        '192.0.2.1': 4,
        '2001:db8::1': 0,
        '2001:db8::2': 5,
      });
    });

    for (const [name, link, route] of [
      [
        'of a load balancer of GCE',
        'address add 10.128.0.4/32 dev lo',
        'route add local 10.128.0.3 dev lo proto 66',
      ],
      [
        'of a load balancer of GCE, of IPv6',
        'address add 2001:db8::7/128 dev lo',
        'route add local 2001:db8::3 dev lo proto 66',
      ],
      [
        'beside a deprecated one',
        'address add 10.0.0.9/32 dev lo preferred_lft 0',
        'route add local 10.0.0.1 dev lo',
      ],
      [
        'that somebody has added by hand',
        'address add 10.0.0.9/32 dev lo',
        'route add local 10.0.0.1/32 dev lo scope host',
      ],
    ] as const)
      it(`are ranked: any of a link is better than one that only a route makes local, ${name}`, async () => {
        await using box = await createBox(kind);
        const input = `${link}\n${route}\n`;
        await succeed(box.run('ip', ['-batch', '-'], { input }));
        const args = ['--input-type=module', '--eval', SCRIPT];
        const { list, ranks } = JSON.parse(await succeed(box.run(process.execPath, args)));
        assert.equal(list.length, 2);
        const best = list[ranks.indexOf(Math.min(...ranks))];
        assert.ok(link.includes(best), best);
        assert.notEqual(ranks[0], ranks[1]);
      });
  });
