import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { METRIC_PREFIX } from '../../lib/status/metrics.ts';
import { createNode, eventually } from '../e2e/support.ts';
import { CHAIN, FAMILIES } from '../kernel/support.ts';
import type { Fetch, Fetched } from '../lab/fetcher.ts';
import { startHelper } from '../lab/helper.ts';
import type { HeldHost } from '../lab/host.ts';
import { createNetwork, type Network } from '../lab/network.ts';
import type { Files } from '../lab/volume.ts';
import { type AgentLab, startAgentLab } from './agent-lab.ts';
import { DATAPLANES, type DataplaneKind, NO_LAB } from './support.ts';

const FIRST: Files = {
  'ip-masq-cloud': 'nonMasqueradeCIDRs: [10.1.0.0/16, 10.4.0.0/16, fd00:1::/32]\n',
  'ip-masq-operator': 'nonMasqueradeCIDRs: [10.2.0.0/16]\n',
};
/** The cloud's first entry stays, the operator's is another, and there is one config file more. */
const SECOND: Files = {
  'ip-masq-cloud': 'nonMasqueradeCIDRs: [10.1.0.0/16, fd00:1::/32]\n',
  'ip-masq-more': 'nonMasqueradeCIDRs: [10.4.0.0/16]\n',
  'ip-masq-operator': 'nonMasqueradeCIDRs: [10.3.0.0/16]\n',
};

/** Longer than the kernel's counters are taken for fresh. */
const STALE_MS = 15_000;
const SERIES = new RegExp(
  `^${METRIC_PREFIX}((?:not_)?masqueraded_connections_total|connections_from_elsewhere_total)(.*) (\\d+)$`,
);

/** Counters by name and labels, as a scrape has them. */
type Scrape = ReadonlyMap<string, number>;

describe('the counters of a running agent grow by exactly the connections of pods', {
  concurrency: true,
  skip: NO_LAB,
}, () => {
  for (const kind of DATAPLANES) {
    it(`through a config change and a flush by somebody else, and never shrink: ${kind.name}`, async () => {
      await using lab = await startAgentLab(kind, FIRST);
      const { network, host, triggers } = lab;
      const grow = watch(lab);
      await grow({});

      await connect(network, {
        '10.1.0': 9,
        '10.4.0': 2,
        '10.2.0': 8,
        '203.0.113': 7,
        'fd00:1:': 6,
        '2606:': 5,
      });
      await grow({ cloud4: 11, operator4: 8, masqueraded4: 7, cloud6: 6, masqueraded6: 5 });

      await lab.volume.swap(SECOND);
      await lab.seen(/^ip_masq_agent_syncs_total\{family="IPv4",result="changed"\} 2$/m);
      // Nobody has looked since, and it is more than before: the numbers do not tell that rules were made anew.
      await connect(network, {
        '10.1.0': 12,
        '10.2.0': 1,
        '10.3.0': 4,
        '10.4.0': 1,
        '203.0.113': 3,
        'fd00:1:': 2,
      });
      await grow({ cloud4: 12, operator4: 4, more4: 1, masqueraded4: 4, cloud6: 2 });

      await flush(kind, host);
      await grow({});
      triggers.add('signal');
      await lab.seen(/^ip_masq_agent_drift_repairs_total\{family="IPv4",.*\} 1$/m);
      await grow({});
      await connect(network, { '10.1.0': 3, '10.3.0': 2, '203.0.113': 1, 'fd00:1:': 1, '2606:': 1 });
      await grow({ cloud4: 3, operator4: 2, masqueraded4: 1, cloud6: 1, masqueraded6: 1 });
    });

    it(`of packets from elsewhere, and of those from a listed range: ${kind.name}`, async () => {
      const from = (range: string) => ({
        ...FIRST,
        'ip-masq-cloud': `${FIRST['ip-masq-cloud']}masqueradeFromCIDRs: [${range}]\n`,
      });
      await using lab = await startAgentLab(kind, from('10.244.1.0/24'));
      const grow = watch(lab);
      await grow({});
      await connect(lab.network, { '10.1.0': 3, '203.0.113': 2, 'fd00:1:': 1 });
      await grow({ cloud4: 3, masqueraded4: 2, cloud6: 1 });
      await lab.volume.swap(from('10.99.0.0/16'));
      await lab.seen(/^ip_masq_agent_syncs_total\{family="IPv4",result="changed"\} 2$/m);
      await connect(lab.network, { '10.1.0': 4, '203.0.113': 5, 'fd00:1:': 2 });
      await grow({ elsewhere4: 9, cloud6: 2 });
      const never = 'nonMasqueradeFromCIDRs: [10.244.0.0/16]\n';
      await lab.volume.swap({ ...FIRST, 'ip-masq-cloud': `${FIRST['ip-masq-cloud']}${never}` });
      await lab.seen(/^ip_masq_agent_syncs_total\{family="IPv4",result="changed"\} 3$/m);
      await connect(lab.network, { '10.1.0': 1, '203.0.113': 2, 'fd00:1:': 3 });
      await grow({ elsewhere4: 3, cloud6: 3 });
    });

    it(`as its binary serves them: ${kind.name}`, async () => {
      await using node = await createNode();
      await using network = await createNetwork(node.box);
      await using fetcher = await startHelper<Fetch, Fetched>(
        node.box,
        new URL('../lab/fetcher.ts', import.meta.url),
      );
      await node.volume(FIRST);
      const agent = node.start('--enable-ipv6', '--metrics-bind-address=127.0.0.1:9614', ...kind.flags);
      await agent.logged(/http:\/\/127\.0\.0\.1:9614/);
      await connect(network, { '10.1.0': 4, '10.2.0': 3, '203.0.113': 2, 'fd00:1:': 1 });
      const url = 'http://127.0.0.1:9614/metrics';
      const counters = await countersWith(10, async () => (await fetcher.ask({ url })).body);
      const counted = [...counters].filter(([, value]) => value > 0);
      assert.deepEqual(Object.fromEntries(counted), {
        [seriesName('masqueraded4')]: 2,
        [seriesName('cloud4')]: 4,
        [seriesName('cloud6')]: 1,
        [seriesName('operator4')]: 3,
      });
      await agent.stop();
    });
  }
});

it('the counters are read from the kernel once in 15 seconds, however often they are scraped', {
  skip: NO_LAB,
}, async () => {
  await using lab = await startAgentLab(DATAPLANES[0], FIRST);
  const grow = watch(lab);
  // A reading that has found them is over.
  await connect(lab.network, { '10.1.0': 1 });
  await grow({ cloud4: 1 });
  await connect(lab.network, { '10.1.0': 2 });
  lab.age(STALE_MS - 1);
  for (const text of await Promise.all(Array.from({ length: 20 }, lab.scrape)))
    assert.equal(countersOf(text).get(seriesName('cloud4')), 1);
  await grow({ cloud4: 2 });
});

/**
 * Begins with what has been counted so far. The function scrapes once that is no longer fresh, and asserts that since
 * the last call these packets have been counted, of each config file or masqueraded, and no others; and that nothing has
 * shrunk.
 */
function watch(lab: AgentLab): (packets: Readonly<Record<string, number>>) => Promise<void> {
  let last: Scrape = new Map();
  return async (packets) => {
    const before = last;
    const expected = packetsIn(before) + sum(Object.values(packets));
    lab.age(STALE_MS);
    last = await countersWith(expected, lab.scrape);
    assertGrown(before, last, packets);
  };
}

/** A reading of the kernel that takes long comes with a later scrape: waits until at least so many packets have. */
async function countersWith(packets: number, scrape: () => Promise<string>): Promise<Scrape> {
  let counters: Scrape = new Map();
  await eventually(
    async () => {
      counters = countersOf(await scrape());
      return packetsIn(counters) >= packets;
    },
    () => `${packets} packets to be counted; ${packetsIn(counters)} are`,
  );
  return counters;
}

function packetsIn(counters: Scrape): number {
  return sum([...counters.values()]);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

function countersOf(text: string): Scrape {
  return new Map(
    text.split('\n').flatMap((line) => {
      const [, name = '', labels = '', value] = SERIES.exec(line) ?? [];
      return value === undefined ? [] : [[name + labels, Number(value)]];
    }),
  );
}

/** `cloud4` for IPv4 packets that a config file leaves alone, `masqueraded6` for those of IPv6 that are masqueraded. */
function seriesName(what: string): string {
  const family = `family="IPv${what.at(-1)}"`;
  const name = what.slice(0, -1);
  if (name === 'elsewhere') return `connections_from_elsewhere_total{${family}}`;
  if (name === 'masqueraded') return `masqueraded_connections_total{${family}}`;
  return `not_masqueraded_connections_total{${family},file="ip-masq-${name}"}`;
}

function assertGrown(before: Scrape, after: Scrape, packets: Readonly<Record<string, number>>): void {
  const grown = [...after].flatMap(([name, value]) => {
    const by = value - (before.get(name) ?? 0);
    return by === 0 ? [] : [[name, by]];
  });
  const wanted = Object.entries(packets).map(([what, count]) => [seriesName(what), count]);
  assert.deepEqual(Object.fromEntries(grown), Object.fromEntries(wanted));
  for (const [name] of before) assert.ok(after.has(name), `${name} is gone`);
}

/** Opens so many connections from the pod to addresses that begin like this, each to one of its own. */
async function connect({ sourcesSeen }: Network, counts: Readonly<Record<string, number>>): Promise<void> {
  const destinations = Object.entries(counts).flatMap(([beginning, count]) =>
    Array.from({ length: count }, (_, index) =>
      beginning.endsWith(':') ? `${beginning}:${index + 1}` : `${beginning}.${index + 1}`,
    ),
  );
  // Not UDP: a packet that is lost would be sent once more, and counted twice.
  await sourcesSeen(destinations, { protocol: 'tcp' });
}

/** What another program, or a person, may do to our rules. */
async function flush({ name }: DataplaneKind, host: HeldHost): Promise<void> {
  for (const family of FAMILIES) {
    const [file, args] =
      name === 'nftables'
        ? (['nft', ['flush', 'table', family === 'IPv4' ? 'ip' : 'ip6', 'ip-masq-agent']] as const)
        : ([
            name.replace('iptables', family === 'IPv4' ? 'iptables' : 'ip6tables'),
            ['-t', 'nat', '-F', CHAIN],
          ] as const);
    const { code, stderr } = await host.run(file, args);
    assert.equal(code, 0, stderr);
  }
}
