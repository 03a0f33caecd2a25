/** What many entries cost: reading them, keeping them in the nftables dataplane, and a connection that passes them. */
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { type Box, createBox, ownBox } from '../lab/box.ts';
import { createNetwork } from '../lab/network.ts';
import { succeed } from '../lab/run.ts';
import { agentFlags, BINARY, metric, startAgent } from './agent.ts';
import { call, runOnce } from './calls.ts';
import { createNode, PLAIN_NODE } from './node.ts';
import { atMost, type BenchOptions, type Part, type Row, row, type Table, takeTurns } from './part.ts';
import { watchPeaks } from './proc.ts';
import { manySources, writeSources } from './sources.ts';

const COUNTS = [10_000, 100_000];

export const load: Part = {
  name: 'load',
  about: 'check of 10,000 and 100,000 CIDRs',
  async measure({ rounds }) {
    const tables: Table[] = [];
    for (const count of COUNTS) tables.push(await loadOf(count, rounds(7)));
    return tables;
  },
};

async function loadOf(count: number, rounds: number): Promise<Table> {
  await using box = await ownBox();
  await using dir = await writeSources(manySources(count));
  const files = Object.keys(manySources(count)).map((name) => `${dir.path}/${name}`);
  const of = await takeTurns(rounds, [
    async () => {
      const { peak, took } = await runOnce(box, call(process.execPath, '-e', '0'));
      return { bare: took, barePeak: peak };
    },
    async () => ({ ...(await runOnce(box, call(BINARY, 'check', ...files))) }),
  ]);
  const isMost = count === COUNTS.at(-1);
  const bare = row('bare Node start', 'ms', of('bare'));
  const barePeak = row('bare Node: peak resident memory', 'MB', of('barePeak'));
  return {
    title: `load, validate and merge ${count.toLocaleString('en')} CIDRs`,
    rows: [
      bare,
      row('exec → exit of `check`', 'ms', of('took'), {
        baseline: bare,
        targets: isMost ? [atMost(1_500, 'ms')] : [],
      }),
      row('exec → exit of `check`: CPU', 'ms', of('cpu')),
      barePeak,
      row('`check`: peak resident memory', 'MB', of('peak'), {
        baseline: barePeak,
        targets: isMost ? [atMost(150, 'MB')] : [],
      }),
    ],
  };
}

export const scale: Part = {
  name: 'scale',
  about: '10,000 and 100,000 CIDRs in the nftables dataplane, and its memory',
  async measure({ rounds }) {
    const tables: Table[] = [];
    for (const count of COUNTS) tables.push(await scaleOf(count, rounds(5)));
    return tables;
  },
};

async function scaleOf(count: number, rounds: number): Promise<Table> {
  const of = await takeTurns(rounds, [
    async () => {
      await using node = await createNode(PLAIN_NODE);
      const files = (number: number) => manySources(count + number);
      await using agent = await startAgent(node, { families: 'IPv4', backend: 'nftables', files });
      const change = await agent.swap(1);
      await agent.settle();
      const before = syncMs(await agent.scrape());
      await agent.resync(1);
      return { start: agent.started, change, idle: syncMs(await agent.scrape()) - before };
    },
  ]);
  const peaks = await peaksOfOnce(count);
  return {
    title: `${count.toLocaleString('en')} CIDRs, nftables`,
    rows: [
      row('exec → first sync done, server listens', 'ms', of('start')),
      row('..data renamed → the agent says that it is done: one more', 'ms', of('change')),
      row('idle resync, as the agent measures it', 'ms', of('idle')),
      row('--once: peak memory of the agent', 'MB', [peaks.own]),
      row('--once: peak memory of nft', 'MB', [peaks.tools]),
    ],
  };
}

function syncMs(metrics: string): number {
  return metric(metrics, 'ip_masq_agent_sync_duration_seconds_sum') * 1000;
}

async function peaksOfOnce(count: number) {
  await using box = await createBox();
  await using dir = await writeSources(manySources(count));
  const flags = ['--once', ...agentFlags(dir.path, 'IPv4'), '--backend=nftables'];
  const child = box.spawn(BINARY, flags, { stdio: 'ignore' });
  const peaks = await watchPeaks(child.pid ?? Number.NaN, () => once(child, 'exit'));
  if (child.exitCode !== 0) throw new Error(`the agent ended with ${child.exitCode}`);
  return peaks;
}

const FLOWS_SCRIPT = fileURLToPath(new URL('flows.pl', import.meta.url));
const FLOWS = 8_000;

/** No entry holds this address, and outside drops packets to it without an answer. */
const DESTINATION = '203.0.113.7';

const DATAPLANES = [
  { name: 'iptables-nft', flags: ['--iptables-mode=nft'], counts: [0, 64, 1_000, 10_000] },
  { name: 'iptables-legacy', flags: ['--iptables-mode=legacy'], counts: [0, 64, 1_000, 10_000] },
  { name: 'nftables', flags: ['--backend=nftables'], counts: [0, 64, 1_000, 10_000, 100_000] },
] as const;

export const connections: Part = {
  name: 'connections',
  about: 'what a new connection costs, by dataplane and number of entries',
  measure: async (options) => [
    { title: 'new connection, one UDP packet through the node', rows: await connectionRows(options) },
  ],
};

/** Masqueraded UDP connections that no entry holds: the longest way through the rules. */
async function connectionRows({ rounds }: BenchOptions): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const { name, flags, counts } of DATAPLANES) {
    await using node = await createBox();
    await using network = await createNetwork(node, ['203.0.113.0/24']);
    for (const args of [
      'route del local 203.0.113.0/24 dev lo',
      'route add blackhole 203.0.113.0/24 table local',
    ])
      await succeed(network.outside.run('ip', args.split(' ')));
    // The flows of one sample must not fill the table of the next one.
    await succeed(node.run('tee', ['/proc/sys/net/netfilter/nf_conntrack_udp_timeout'], { input: '1' }));
    const sample = async () => {
      const output = await succeed(network.pod.run('perl', [FLOWS_SCRIPT, DESTINATION, `${FLOWS}`]));
      return { flow: Number(output) };
    };
    const samples = async () => {
      await sample(); // the first one finds cold caches
      return (await takeTurns(rounds(7), [sample]))('flow');
    };
    if (rows.length === 0) rows.push(row('no rules', 'µs', await samples()));
    for (const count of counts) {
      await keep(node, count, flags);
      const label = `${name}, ${count.toLocaleString('en')} entries`;
      rows.push(row(label, 'µs', await samples(), { baseline: rows[0] }));
    }
  }
  return rows;
}

/** Lets the agent bring so many entries into the kernel. */
async function keep(node: Box, count: number, flags: readonly string[]): Promise<void> {
  await using dir = await writeSources(manySources(count));
  await succeed(node.run(BINARY, ['--once', ...agentFlags(dir.path, 'IPv4'), ...flags]));
}
