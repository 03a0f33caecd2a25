/** What a new connection costs in the kernel, by dataplane and number of entries. */
import { fileURLToPath } from 'node:url';
import { openDataplane } from '../../lib/dataplane/open.ts';
import type { DataplaneOptions } from '../../lib/dataplane/options.ts';
import { boxHost } from '../kernel/support.ts';
import { createBox } from '../lab/box.ts';
import { createNetwork } from '../lab/network.ts';
import { succeed } from '../lab/run.ts';
import { manyPolicy } from './many.ts';
import type { Part } from './part.ts';
import type { Row } from './row.ts';

const FLOWS_SCRIPT = fileURLToPath(new URL('flows.pl', import.meta.url));
const FLOWS = 8_000;
const RUNS = 7;
const COUNTS = [0, 64, 1_000, 10_000, 100_000];

/** In nobody's list, and dropped outside without an answer. */
const DESTINATION = '203.0.113.7';

const DATAPLANES: readonly {
  readonly name: string;
  readonly options: Partial<DataplaneOptions>;
  readonly most: number;
}[] = [
  { name: 'iptables-nft', options: { backend: 'iptables', mode: 'nft' }, most: 10_000 },
  { name: 'iptables-legacy', options: { backend: 'iptables', mode: 'legacy' }, most: 10_000 },
  { name: 'nftables', options: { backend: 'nftables' }, most: 100_000 },
];

const GROUP = 'new connection, one UDP packet through the node';
const NO_RULES = 'no rules';

export const connections: Part = {
  name: 'connections',
  about: 'what a new connection costs, by dataplane and number of entries',
  measure,
};

/** Masqueraded UDP connections that no entry holds: the longest way through the rules. */
async function measure(): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const { name, options, most } of DATAPLANES) {
    await using node = await createBox();
    await using network = await createNetwork(node, ['203.0.113.0/24']);
    for (const args of [
      'route del local 203.0.113.0/24 dev lo',
      'route add blackhole 203.0.113.0/24 table local',
    ])
      await succeed(network.outside.run('ip', args.split(' ')));
    // Flows of one sample must not fill the table of the next.
    await succeed(node.run('tee', ['/proc/sys/net/netfilter/nf_conntrack_udp_timeout'], { input: '1' }));
    const sample = async () =>
      Number(await succeed(network.pod.run('perl', [FLOWS_SCRIPT, DESTINATION, String(FLOWS)])));
    const samples = async () => {
      await sample(); // the first one finds cold caches
      const taken: number[] = [];
      for (let run = 0; run < RUNS; run += 1) taken.push(await sample());
      return taken;
    };
    if (rows.length === 0) rows.push({ group: GROUP, name: NO_RULES, unit: 'µs', samples: await samples() });
    const dataplane = await openDataplane({ ...DEFAULTS, ...options }, boxHost(node).host);
    for (const count of COUNTS.filter((entries) => entries <= most)) {
      const plan = (await dataplane.observe('IPv4')).plan(manyPolicy(count));
      if (plan !== undefined) await dataplane.apply(plan);
      rows.push({
        group: GROUP,
        name: `${name}, ${count.toLocaleString('en')} entries`,
        unit: 'µs',
        samples: await samples(),
        baseline: NO_RULES,
      });
    }
  }
  return rows;
}

const DEFAULTS: DataplaneOptions = {
  backend: 'iptables',
  mode: 'auto',
  chain: 'IP-MASQ-AGENT',
  randomFully: true,
  toPorts: [],
};
