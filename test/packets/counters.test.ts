import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { MergedConfig } from '../../lib/config/config.ts';
import { compilePolicy } from '../../lib/policy/policy.ts';
import { PacketCounts } from '../../lib/status/packet-counts.ts';
import { createNode, eventually, SERVED } from '../e2e/support.ts';
import { CHAIN, FAMILIES, type Family } from '../kernel/support.ts';
import { createNetwork, type Network } from '../lab/network.ts';
import { succeed } from '../lab/run.ts';
import { mergedOf } from '../unit/config/support.ts';
import { createPacketLab, DATAPLANES, type DataplaneKind, NO_LAB, type PacketLab, sync } from './support.ts';

const FIRST = {
  'ip-masq-cloud': 'nonMasqueradeCIDRs: [10.1.0.0/16, 10.4.0.0/16, fd00:1::/32]\n',
  'ip-masq-operator': 'nonMasqueradeCIDRs: [10.2.0.0/16]\n',
};
/** The cloud's first entry stays, the operator's is another, and there is one config file more. */
const SECOND = {
  'ip-masq-cloud': 'nonMasqueradeCIDRs: [10.1.0.0/16, fd00:1::/32]\n',
  'ip-masq-more': 'nonMasqueradeCIDRs: [10.4.0.0/16]\n',
  'ip-masq-operator': 'nonMasqueradeCIDRs: [10.3.0.0/16]\n',
};

/** Longer than the kernel's counters are taken for fresh. */
const STALE_MS = 15_000;

/** Numbers by what counts them: `cloud4` is the config file ip-masq-cloud for IPv4, `masqueraded6` what none lists. */
type Numbers = Readonly<Record<string, number>>;

describe('the counters grow by exactly the connections of pods', { concurrency: true, skip: NO_LAB }, () => {
  for (const kind of DATAPLANES) {
    it(`also after a change of the config, and after another program has flushed the rules: ${kind.name}`, async () => {
      await using lab = await createPacketLab(kind);
      const { apply, growth } = counting(lab);
      await apply(FIRST);
      assert.deepEqual(await growth(), {});
      await connect(lab.network, {
        '10.1.0': 9,
        '10.4.0': 2,
        '10.2.0': 8,
        '203.0.113': 7,
        'fd00:1:': 6,
        '2606:': 5,
      });
      assert.deepEqual(await growth(), {
        cloud4: 11,
        operator4: 8,
        masqueraded4: 7,
        cloud6: 6,
        masqueraded6: 5,
      });

      await apply(SECOND);
      // Nobody has looked since, and it is more than before: the numbers do not tell that rules were made anew.
      await connect(lab.network, {
        '10.1.0': 12,
        '10.2.0': 1,
        '10.3.0': 4,
        '10.4.0': 1,
        '203.0.113': 3,
        'fd00:1:': 2,
      });
      assert.deepEqual(await growth(), { cloud4: 12, more4: 1, operator4: 4, masqueraded4: 4, cloud6: 2 });

      await flush(kind, lab);
      assert.deepEqual(await growth(), {});
      await apply(SECOND);
      assert.deepEqual(await growth(), {});
      await connect(lab.network, { '10.1.0': 3, '10.3.0': 2, '203.0.113': 1, 'fd00:1:': 1, '2606:': 1 });
      assert.deepEqual(await growth(), {
        cloud4: 3,
        operator4: 2,
        masqueraded4: 1,
        cloud6: 1,
        masqueraded6: 1,
      });
    });

    it(`of packets from elsewhere, and of those from a listed range: ${kind.name}`, async () => {
      await using lab = await createPacketLab(kind);
      const { apply, growth } = counting(lab);
      for (const [ranges, sent, counted] of [
        [
          'masqueradeFromCIDRs: [10.244.1.0/24]',
          { '10.1.0': 3, '203.0.113': 2, 'fd00:1:': 1 },
          { cloud4: 3, masqueraded4: 2, cloud6: 1 },
        ],
        [
          'masqueradeFromCIDRs: [10.99.0.0/16]',
          { '10.1.0': 4, '203.0.113': 5, 'fd00:1:': 2 },
          { elsewhere4: 9, cloud6: 2 },
        ],
        [
          'nonMasqueradeFromCIDRs: [10.244.0.0/16]',
          { '10.1.0': 1, '203.0.113': 2, 'fd00:1:': 3 },
          { elsewhere4: 3, cloud6: 3 },
        ],
      ] as const) {
        await apply({ ...FIRST, 'ip-masq-cloud': `${FIRST['ip-masq-cloud']}${ranges}\n` });
        await connect(lab.network, sent);
        assert.deepEqual(await growth(), counted);
      }
    });

    it(`as the agent serves them: ${kind.name}`, async () => {
      await using node = await createNode();
      await using network = await createNetwork(node.box);
      await node.volume(FIRST);
      const agent = node.start('--enable-ipv6', SERVED, ...kind.flags);
      await agent.logged(/http:\/\/127\.0\.0\.1:9614/);
      await connect(network, { '10.1.0': 4, '10.2.0': 3, '203.0.113': 2, 'fd00:1:': 1 });
      const wanted = [
        'masqueraded_connections_total{family="IPv4"} 2',
        'not_masqueraded_connections_total{family="IPv4",file="ip-masq-cloud"} 4',
        'not_masqueraded_connections_total{family="IPv4",file="ip-masq-operator"} 3',
        'not_masqueraded_connections_total{family="IPv6",file="ip-masq-cloud"} 1',
      ];
      let found: readonly string[] = [];
      await eventually(
        async () => {
          const lines = (await node.metrics()).matchAll(
            /^ip_masq_agent_(\S*_connections_total.* [1-9]\d*)$/gm,
          );
          found = Array.from(lines, ([, line = '']) => line).toSorted();
          return found.join() === wanted.join();
        },
        () => `${wanted.join('\n')}\nand no others:\n${found.join('\n')}`,
      );
      await agent.stop();
    });
  }
});

/** Applies configs, and tells by how much the counters have grown since it was asked last. */
function counting({ dataplane }: PacketLab) {
  let config: MergedConfig = mergedOf({});
  let now = 0;
  const counts = new PacketCounts(() => now);
  const growthOf = async (family: Family): Promise<readonly (readonly [string, number])[]> => {
    const grown = await counts.takeGrowth(dataplane, compilePolicy(config, family));
    return grown.map(({ file, countedAs, packets }) => {
      const what = file?.replace('ip-masq-', '') ?? (countedAs === 'masqueraded' ? countedAs : 'elsewhere');
      return [`${what}${family.at(-1)}`, Number(packets)];
    });
  };
  return {
    apply: async (files: Readonly<Record<string, string>>) => {
      config = mergedOf(files);
      await sync(dataplane, config);
    },
    growth: async (): Promise<Numbers> => {
      now += STALE_MS;
      const all = (await Promise.all(FAMILIES.map(growthOf))).flat();
      return Object.fromEntries(all.filter(([, packets]) => packets !== 0));
    },
  };
}

/** Opens so many connections from the pod to addresses that begin like this, each to one of its own. */
async function connect({ sourcesSeen }: Network, counts: Numbers): Promise<void> {
  const destinations = Object.entries(counts).flatMap(([beginning, count]) =>
    Array.from({ length: count }, (_, index) =>
      beginning.endsWith(':') ? `${beginning}:${index + 1}` : `${beginning}.${index + 1}`,
    ),
  );
  // Not UDP: a packet that is lost would be sent once more, and counted twice.
  await sourcesSeen(destinations, { protocol: 'tcp' });
}

/** What another program, or a person, may do to our rules. */
async function flush({ name }: DataplaneKind, { network }: PacketLab): Promise<void> {
  for (const ip of ['ip', 'ip6'] as const)
    await succeed(
      name === 'nftables'
        ? network.node.run('nft', ['flush', 'table', ip, 'ip-masq-agent'])
        : network.node.run(name.replace('ip', ip), ['-t', 'nat', '-F', CHAIN]),
    );
}
