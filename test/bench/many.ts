/** What many entries cost: reading them, keeping them in the nftables dataplane, and a connection that passes them. */
import { fileURLToPath } from 'node:url';
import { type Box, createBox } from '../lab/box.ts';
import { createNetwork, NODE } from '../lab/network.ts';
import { succeed } from '../lab/run.ts';
import type { Files } from '../lab/volume.ts';
import { agentFlags, BINARY, metric, startAgent } from './agent.ts';
import { call, runOnce } from './calls.ts';
import { MANY_FLAGS, manyFiles, writeFiles } from './config-files.ts';
import { createNode, PLAIN_NODE } from './node.ts';
import { atMost, type BenchOptions, type Row, row, type Table, takeTurns } from './part.ts';
import { peakOfTools } from './proc.ts';

/** Reading them, and keeping them in the nftables dataplane. */
export async function* load({ rounds }: BenchOptions): AsyncIterable<Table> {
  for (const count of [10_000, 100_000]) {
    await using box = await createBox();
    await using dir = await writeFiles(manyFiles(count));
    const files = Object.keys(manyFiles(count)).map((name) => `${dir.path}/${name}`);
    const flags = [...agentFlags(dir.path, 'IPv4'), '--backend=nftables'];
    const once = await runOnce(box, call(BINARY, '--once', ...flags));
    const { bare, check } = await takeTurns(rounds(7), {
      bare: () => runOnce(box, call(process.execPath, '-e', '0')),
      check: () => runOnce(box, call(BINARY, 'check', ...MANY_FLAGS, ...files)),
    });
    const { agent } = await takeTurns(rounds(5), { agent: () => keepMany(count) });
    const bareStart = row('bare Node start', 'ms', bare.took);
    const barePeak = row('bare Node: peak memory', 'MB', bare.peak);
    yield {
      title: `${count.toLocaleString('en')} CIDRs`,
      rows: [
        bareStart,
        row('`check`: exec → exit', 'ms', check.took, {
          baseline: bareStart,
          targets: [atMost(1_500, 'ms')],
        }),
        row('`check`: CPU', 'ms', check.cpu),
        barePeak,
        row('`check`: peak memory', 'MB', check.peak, { baseline: barePeak, targets: [atMost(250, 'MB')] }),
        row('nftables, `--once`: peak memory', 'MB', [once.peak], { baseline: barePeak }),
        row('nftables: exec → first sync done, server listens', 'ms', agent.started),
        row('nftables, one more: ..data renamed → the agent says that it is done', 'ms', agent.change),
        row('nftables: idle resync, as the agent measures it', 'ms', agent.idle),
        row('nftables, one more: peak memory of nft', 'MB', agent.nft),
      ],
    };
  }
}

/** Runs the agent on a new node, and adds one CIDR, and one more. */
async function keepMany(count: number) {
  await using node = await createNode(PLAIN_NODE);
  const files = (number: number) => manyFiles(count + number);
  await using agent = await startAgent(node, { families: 'IPv4', backend: 'nftables', files });
  const change = await agent.swap(1);
  await agent.settle();
  const before = syncMs(await agent.scrape());
  await agent.resync(1);
  const idle = syncMs(await agent.scrape()) - before;
  const nft = await peakOfTools(agent.pid, () => agent.swap(2));
  return { started: agent.started, change, idle, nft };
}

function syncMs(metrics: string): number {
  return metric(metrics, 'ip_masq_agent_sync_duration_seconds_sum') * 1000;
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

/** Masqueraded UDP connections that no entry holds: the longest way through the rules. */
export async function* connections({ rounds }: BenchOptions): AsyncIterable<Table> {
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
      return (await takeTurns(rounds(7), { sample })).sample.flow;
    };
    if (rows.length === 0) rows.push(row('no rules', 'µs', await samples()));
    for (const count of counts) {
      await keep(node, count, flags);
      const label = `${name}, ${count.toLocaleString('en')} entries`;
      rows.push(row(label, 'µs', await samples(), { baseline: rows[0] }));
    }
    for (const [what, text] of Object.entries(OPTIONAL_KEYS)) {
      await keep(node, FEW, flags, { 'ip-masq-key': text });
      rows.push(row(`${name}, ${FEW} entries, ${what}`, 'µs', await samples(), { baseline: rows[0] }));
    }
  }
  yield { title: 'new connection, one UDP packet through the node', rows };
}

const FEW = 64;
const TEN = Array.from({ length: 10 }, (_, index) => index);

/** Config files with the optional keys. What concerns the connections of the pod stands last. */
const OPTIONAL_KEYS = {
  '10 masqueradeFromCIDRs': JSON.stringify({
    masqueradeFromCIDRs: TEN.map((index) => `10.${235 + index}.0.0/16`),
  }),
  '1 nonMasqueradeFromCIDRs': exceptions(1),
  '1,000 nonMasqueradeFromCIDRs': exceptions(1_000),
  '10 masqueradeAddresses': JSON.stringify({
    masqueradeAddresses: TEN.map((index) => ({
      destination: `203.0.${104 + index}.0/24`,
      address: `${NODE.IPv4}/32`,
    })),
  }),
};

/** Ranges that do not touch, and do not hold the pod. */
function exceptions(count: number): string {
  const ranges = Array.from(
    { length: count },
    (_, index) => `172.${16 + (index >> 7)}.${(index & 127) * 2}.0/24`,
  );
  return JSON.stringify({ cidrLimit: count, nonMasqueradeFromCIDRs: ranges });
}

/** Lets the agent bring so many entries into the kernel. */
async function keep(node: Box, count: number, flags: readonly string[], more: Files = {}): Promise<void> {
  await using dir = await writeFiles({ ...manyFiles(count), ...more });
  await succeed(node.run(BINARY, ['--once', ...agentFlags(dir.path, 'IPv4'), ...flags]));
}
