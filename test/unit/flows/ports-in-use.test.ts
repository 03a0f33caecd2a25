import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { formatAddress, parseAddress } from '../../../lib/cidr/address.ts';
import { PortCounter } from '../../../lib/flows/ports-in-use.ts';
import type { Flow } from '../../../lib/netlink/conntrack.ts';
import { flowOf } from './support.ts';

const NODE = parseAddress('192.0.2.1')?.value;
const isOwn = ({ value }: { readonly value: bigint }) => value === NODE;

const TEN_PORTS = [{ first: 2001, last: 2010 }];

const connection = (pod: number, port: number, to = '203.0.113.9:443'): Flow =>
  flowOf({ from: `10.244.1.${pod}:5000`, to, as: `192.0.2.1:${port}` }, { protocol: 6 });

describe('ports in use', () => {
  it('are counted for each address, protocol, destination and its port, and belong to pods', () => {
    const flows = [
      connection(2, 2001),
      connection(2, 2002),
      connection(3, 2003),
      connection(3, 2001, '203.0.113.9:80'),
      { ...connection(3, 2004), protocol: 17 },
      // Not translated, not the node's, out of the range, without ports.
      flowOf({ from: '10.244.1.4:2005', to: '203.0.113.9:443' }, { protocol: 6 }),
      connection(4, 3000),
      { ...connection(4, 2006), protocol: 1 },
      { ...connection(4, 2006), zone: 1 },
      // The node itself uses the same ports.
      flowOf({ from: '192.0.2.1:2007', to: '203.0.113.9:443' }, { protocol: 6 }),
      // They stay on the node.
      flowOf({ from: '192.0.2.1:2008', to: '192.0.2.1:443' }, { protocol: 6 }),
      connection(4, 2009, '192.0.2.1:443'),
    ];
    const counter = new PortCounter(TEN_PORTS, isOwn);
    for (const flow of flows) counter.add(flow);
    assert.equal(counter.highestShare('IPv4'), 0.4);
    assert.equal(counter.highestShare('IPv6'), 0);
    const details = counter.details();
    for (const flow of flows) details.add(flow);
    const told = details.uses().map(({ address, ports, protocol, destination, inUse, users }) => {
      const whose = users.map((user) => `${user.inUse} of ${user.address}`).join(', ');
      return `${address} ${protocol} ${destination}: ${inUse} of ${ports}, ${whose}`;
    });
    assert.deepEqual(told, [
      '192.0.2.1 tcp 203.0.113.9:443: 4 of 10, 2 of 10.244.1.2, 1 of 10.244.1.3, 1 of 192.0.2.1',
      '192.0.2.1 tcp 203.0.113.9:80: 1 of 10, 1 of 10.244.1.3',
      '192.0.2.1 udp 203.0.113.9:443: 1 of 10, 1 of 10.244.1.3',
    ]);
  });

  for (const [ports, share, used] of [
    [[1024, 65_535], 2 / 64_512, 64_512],
    // Mounts of NFS, of which a server without `insecure` asks for such ports: rancher/rancher#3099,
    // kubernetes-sigs/nfs-subdir-external-provisioner#283, ltsp/ltsp#875.
    [[600, 700, 1023], 3 / 424, 424],
    [[1, 511], 2 / 511, 511],
    [[700, 1024, 1025, 1026], 1 / 424, 424],
    [[512, 599], 0, undefined],
  ] as const)
    it(`are without a range of the kind from which the kernel chooses: ${ports.join(', ')}`, () => {
      const counter = new PortCounter([], isOwn);
      for (const port of ports) counter.add(connection(2, port));
      assert.equal(counter.highestShare('IPv4'), share);
      const details = counter.details();
      for (const port of ports) details.add(connection(2, port));
      assert.equal(details.uses()[0]?.ports, used);
    });

  for (const family of ['IPv4', 'IPv6'] as const)
    it(`are counted as an exact count would, of any flows of ${family}`, () => {
      const bits = family === 'IPv4' ? 32n : 128n;
      const address = fc
        .bigInt({ min: 0n, max: 15n })
        // Neighbours, and addresses that differ in their highest bits only.
        .map((number) => (number & 3n) | ((number >> 2n) << (bits - 2n)));
      const flow = fc.record({
        to: address,
        as: address,
        port: fc.integer({ min: 1, max: 3 }),
        udp: fc.boolean(),
      });
      fc.assert(
        fc.property(fc.array(flow, { maxLength: 200 }), (some) => {
          const text = (value: bigint) =>
            family === 'IPv4' ? formatAddress({ family, value }) : `[${formatAddress({ family, value })}]`;
          const from = family === 'IPv4' ? '10.244.1.2:1' : '[fd00::2]:1';
          const flows = some.map(({ to, as, port, udp }) =>
            flowOf({ from, to: `${text(to)}:${port}`, as: `${text(as)}:2005` }, { protocol: udp ? 17 : 6 }),
          );
          const exact = new Map<string, number>();
          const counter = new PortCounter([{ first: 1, last: 65_535 }], () => false);
          for (const one of flows) {
            const { source, destination, sourcePort } = one.reply;
            const key = [one.protocol, source, destination, sourcePort].join();
            exact.set(key, (exact.get(key) ?? 0) + 1);
            counter.add(one);
          }
          const details = counter.details();
          for (const one of flows) details.add(one);
          const wanted = [...exact.values()].toSorted((a, b) => b - a);
          assert.equal(counter.highestShare(family), (wanted[0] ?? 0) / 65_535);
          const counts = details.uses().map(({ inUse }) => inUse);
          assert.deepEqual(counts, wanted.slice(0, 10));
        }),
      );
    });
});
