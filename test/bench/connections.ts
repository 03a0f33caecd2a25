/** What a new connection costs in the kernel, by dataplane and number of entries. */
import { fileURLToPath } from 'node:url';
import { type DataplaneOptions, openDataplane } from '../../lib/dataplane/open.ts';
import type { Entry, Policy } from '../../lib/policy/policy.ts';
import { boxHost, policyOf } from '../kernel/support.ts';
import { createBox } from '../lab/box.ts';
import { createNetwork } from '../lab/network.ts';
import { succeed } from '../lab/run.ts';
import type { Row } from './stats.ts';

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

const NO_RULES = 'new connection, no rules';

/** Masqueraded UDP connections that no entry holds: the longest way through the rules. */
export async function connections(): Promise<readonly Row[]> {
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
    if (rows.length === 0) rows.push({ name: NO_RULES, unit: 'µs', samples: await samples() });
    const dataplane = await openDataplane({ ...DEFAULTS, ...options }, boxHost(node).host);
    for (const count of COUNTS.filter((entries) => entries <= most)) {
      const plan = (await dataplane.observe('IPv4')).plan(policyWith(count));
      if (plan !== undefined) await dataplane.apply(plan);
      rows.push({
        name: `new connection, ${name}, ${count.toLocaleString('en')} entries`,
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

/** So many entries that do not touch each other, and link-local. */
export function policyWith(count: number): Policy {
  const { entries } = policyOf('IPv4', { 'ip-masq-a': 'nonMasqueradeCIDRs: []' });
  const origin = { kind: 'file', source: 'ip-masq-a', line: 1, column: 1 } as const;
  const more = Array.from({ length: count }, (_, index): Entry => {
    const address = (11n << 24n) + BigInt(index) * 32n;
    const text = `${[24n, 16n, 8n, 0n].map((shift) => (address >> shift) & 255n).join('.')}/28`;
    return { prefix: { family: 'IPv4', address, length: 28, text }, verdict: 'return', origin };
  });
  return { family: 'IPv4', entries: [...entries, ...more] };
}
