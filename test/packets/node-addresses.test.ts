import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createNode, eventually, jsonLines, SERVED } from '../e2e/support.ts';
import { FAMILIES } from '../kernel/support.ts';
import { createNetwork, NODE, POD } from '../lab/network.ts';
import { ip } from '../lab/pod-links.ts';
import { succeed } from '../lab/run.ts';
import { DATAPLANES, NO_LAB } from './support.ts';

/** More addresses of the node, in ranges of the config. The outside knows the way to its network only. */
const SECOND = { IPv4: '192.0.2.139', IPv6: '2001:db8::8000:0:0:7' } as const;
const LOWER = { IPv4: '192.0.2.131', IPv6: '2001:db8::8000:0:0:3' } as const;
const MASK = { IPv4: 32, IPv6: 128 } as const;

const SOMEWHERE = { IPv4: '203.0.113.9', IPv6: '2606:4700::1' } as const;
const INSIDE = { IPv4: '10.1.2.3', IPv6: 'fd01::1' } as const;
/** Another range, of which the node has no address. */
const FOREIGN = { IPv4: '203.0.114.9', IPv6: '2606:4701::1' } as const;

const BEFORE = 'nonMasqueradeCIDRs: [10.0.0.0/8, "fd01::/16"]\n';
const AFTER = `${BEFORE}masqueradeAddresses:
  - {destination: 0.0.0.0/0, address: 192.0.2.128/25}
  - {destination: "::/0", address: "2001:db8::8000:0:0:0/65"}
  - {destination: 203.0.114.0/24, address: 198.18.0.0/24}
  - {destination: "2606:4701::/32", address: "fd00:101::/64"}
`;

it('packets leave with an address as long as its link has a carrier', { skip: NO_LAB }, async () => {
  await using node = await createNode();
  await using network = await createNetwork(node.box);
  await ip(node.box, 'link add extra0 type veth peer name extra1');
  // With IPv6, its link-local address would come and go with the carrier.
  for (const link of ['extra0', 'extra1'])
    await succeed(node.box.run('tee', [`/proc/sys/net/ipv6/conf/${link}/disable_ipv6`], { input: '1' }));
  await ip(
    node.box,
    'link set extra0 up',
    `address add ${SECOND.IPv4}/32 dev extra0`,
    // Lower, but deprecated: as long as there is another one, nothing leaves with it.
    `address add ${LOWER.IPv4}/32 dev extra0 preferred_lft 0`,
  );
  await node.volume({ 'ip-masq-x': AFTER });
  // Only an event can bring a change in time.
  node.start('--enable-ipv6', SERVED, '--backend=nftables', '--resync-interval=1h');
  const arrivesFrom = async (address: string) => {
    let seen = '';
    await eventually(
      async () => {
        seen = (await network.sourceSeen(SOMEWHERE.IPv4)).address;
        return seen === address;
      },
      () => `packets from ${address}, not ${seen}`,
    );
  };
  await arrivesFrom(NODE.IPv4);
  for (const [state, address] of [
    ['up', SECOND.IPv4],
    ['down', NODE.IPv4],
    ['up', SECOND.IPv4],
  ] as const) {
    await ip(node.box, `link set extra1 ${state}`);
    await arrivesFrom(address);
  }
});

describe("packets leave with the node's address in a range", { concurrency: true, skip: NO_LAB }, () => {
  // Each dataplane with each of them is in verdicts.test.ts.
  const PORTS = [[], ['--to-ports=2000-2999'], ['--random-fully=false']];
  for (const [index, { name, flags }] of DATAPLANES.entries()) {
    const ports = PORTS[index] ?? [];
    it(`before, during and after changes: ${[name, ...ports].join(' ')}`, async () => {
      await using node = await createNode();
      await using network = await createNetwork(node.box);
      const change = async (what: 'add' | 'del', all: Readonly<Record<'IPv4' | 'IPv6', string>>) => {
        // By itself, the kernel never chooses a deprecated address.
        const lifetime = what === 'add' ? 'preferred_lft 0' : '';
        const addresses = FAMILIES.map((family) => `${all[family]}/${MASK[family]} dev uplink0`);
        await ip(node.box, ...addresses.map((one) => `address ${what} ${one} ${lifetime}`));
      };
      const sources = async (destinations: Readonly<Record<'IPv4' | 'IPv6', string>>) =>
        (await network.sourcesSeen(FAMILIES.map((family) => destinations[family]))).map(
          ({ address }) => address,
        );
      const arrivesFrom = async (all: Readonly<Record<'IPv4' | 'IPv6', string>>) => {
        let seen: readonly string[] = [];
        await eventually(
          async () => {
            seen = await sources(SOMEWHERE);
            return FAMILIES.every((family, index) => seen[index] === all[family]);
          },
          () => `packets from ${Object.values(all)}, not ${seen}`,
        );
        assert.deepEqual(
          await sources(INSIDE),
          FAMILIES.map((family) => POD[family]),
        );
        assert.deepEqual(
          await sources(FOREIGN),
          FAMILIES.map((family) => NODE[family]),
        );
      };
      await change('add', SECOND);
      const volume = await node.volume({ 'ip-masq-x': BEFORE });
      // Only an event can bring a change in time.
      const agent = node.start('--enable-ipv6', SERVED, ...flags, '--resync-interval=1h', ...ports);
      await arrivesFrom(NODE);
      await volume.swap({ 'ip-masq-x': AFTER });
      await arrivesFrom(SECOND);
      await change('add', LOWER);
      await arrivesFrom(LOWER);
      await change('del', LOWER);
      await arrivesFrom(SECOND);
      await change('del', SECOND);
      await arrivesFrom(NODE);
      await change('add', SECOND);
      await arrivesFrom(SECOND);
      const warnings = jsonLines(agent.log()).filter(({ level }) => level === 'warn');
      assert.ok(
        warnings.some(({ msg }) => /ip-masq-x:5:5: .*no address in 198\.18\.0\.0\/24/.test(String(msg))),
      );
      await volume.swap({ 'ip-masq-x': BEFORE });
      await arrivesFrom(NODE);
    });
  }
});
