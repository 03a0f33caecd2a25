import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { MergedConfig } from '../../lib/config/config.ts';
import { compilePolicy } from '../../lib/policy/policy.ts';
import { CHAIN, FAMILIES } from '../kernel/support.ts';
import type { Network } from '../lab/network.ts';
import { succeed } from '../lab/run.ts';
import { mergedOf } from '../unit/config/support.ts';
import { createPacketLab, DATAPLANES, type DataplaneKind, NO_LAB, type PacketLab, sync } from './support.ts';

const FIRST = {
  'ip-masq-cloud': 'nonMasqueradeCIDRs: [10.1.0.0/16, 10.4.0.0/16, fd00:1::/32]\n',
  'ip-masq-operator': 'nonMasqueradeCIDRs: [10.2.0.0/16]\n',
};
/** No entry stays, and there is one config file more. */
const SECOND = {
  'ip-masq-cloud': 'nonMasqueradeCIDRs: [10.5.0.0/16, fd00:2::/32]\n',
  'ip-masq-more': 'nonMasqueradeCIDRs: [10.6.0.0/16]\n',
  'ip-masq-operator': 'nonMasqueradeCIDRs: [10.3.0.0/16]\n',
};

/** Numbers by what counts them: `cloud4` is the config file ip-masq-cloud for IPv4, `masqueraded6` what none lists. */
type Numbers = Readonly<Record<string, number>>;

describe('the kernel counts exactly the connections of pods', { concurrency: true, skip: NO_LAB }, () => {
  for (const kind of DATAPLANES) {
    it(`from zero after a change of the config, and after another program has removed the rules: ${kind.name}`, async () => {
      await using lab = await createPacketLab(kind);
      const { apply, counted } = counting(lab);
      await apply(FIRST);
      assert.deepEqual(await counted(), {});
      const sent = { '10.1.0': 9, '10.4.0': 2, '10.2.0': 8, '203.0.113': 7, 'fd00:1:': 6, '2606:': 5 };
      const all = { cloud4: 11, operator4: 8, masqueraded4: 7, cloud6: 6, masqueraded6: 5 };
      await connect(lab.network, sent);
      assert.deepEqual(await counted(), all);

      await flush(kind, lab);
      assert.deepEqual(await counted(), {});
      await apply(FIRST);
      assert.deepEqual(await counted(), {});
      await connect(lab.network, sent);
      assert.deepEqual(await counted(), all);

      await apply(SECOND);
      const byFile = async () => {
        const { masqueraded4: _, masqueraded6: __, ...files } = await counted();
        return files;
      };
      assert.deepEqual(await byFile(), {});
      await connect(lab.network, { '10.5.0': 3, '10.6.0': 1, '10.3.0': 2, 'fd00:2:': 1 });
      assert.deepEqual(await byFile(), { cloud4: 3, more4: 1, operator4: 2, cloud6: 1 });
    });

    it(`of packets from elsewhere, and of those from a listed range: ${kind.name}`, async () => {
      await using lab = await createPacketLab(kind);
      const { apply, counted } = counting(lab);
      for (const [ranges, sent, wanted] of [
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
        const before = await counted();
        await connect(lab.network, sent);
        const grown = Object.entries(await counted()).map(([what, count]) => [
          what,
          count - (before[what] ?? 0),
        ]);
        assert.deepEqual(Object.fromEntries(grown.filter(([, count]) => count !== 0)), wanted);
      }
    });
  }
});

/** Applies configs, and tells what the kernel has counted. */
function counting({ dataplane }: PacketLab) {
  let config: MergedConfig = mergedOf({});
  return {
    apply: async (files: Readonly<Record<string, string>>) => {
      config = mergedOf(files);
      await sync(dataplane, config);
    },
    counted: async (): Promise<Numbers> => {
      const sums: Record<string, number> = {};
      for (const family of FAMILIES)
        for (const { entry, countedAs, packets } of await dataplane.count(compilePolicy(config, family))) {
          const file =
            entry?.origin.kind === 'file' ? entry.origin.configFile.replace('ip-masq-', '') : undefined;
          const what = `${file ?? (countedAs === 'masqueraded' ? countedAs : 'elsewhere')}${family.at(-1)}`;
          if (packets > 0n) sums[what] = (sums[what] ?? 0) + Number(packets);
        }
      return sums;
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
        ? network.node.run('nft', ['delete', 'table', ip, 'ip-masq-agent'])
        : network.node.run(name.replace('ip', ip), ['-t', 'nat', '-F', CHAIN]),
    );
}
