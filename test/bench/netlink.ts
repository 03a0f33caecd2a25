/** What the agent costs over netlink: where tools were asked before, with many entries, and in a storm of changes. */
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { watchGenerations } from '../lab/generations.ts';
import { succeed } from '../lab/run.ts';
import { agentFlags, BINARY, startAgent } from './agent.ts';
import { call, record, runOnce } from './calls.ts';
import { configFiles, manyFiles, writeFiles } from './config-files.ts';
import { type BenchNode, createNode, PLAIN_NODE } from './node.ts';
import { atMost, type BenchOptions, median, row, type Table, takeTurns } from './part.ts';
import { cpuDuring, memoryOf } from './proc.ts';

interface Dataplane {
  readonly backend: 'iptables' | 'nftables';
  /** Makes packets meet no rule of the agent. */
  readonly damage: readonly string[];
}

const DATAPLANES: readonly Dataplane[] = [
  {
    backend: 'iptables',
    damage: ['iptables-nft', '-t', 'nat', '-F', 'IP-MASQ-AGENT'],
  },
  {
    backend: 'nftables',
    damage: ['nft', 'flush', 'chain', 'ip', 'ip-masq-agent', 'postrouting'],
  },
];

/** The server's counts of packets are read from the kernel again if they are older than 15 seconds. */
const REST_MS = 16_000;
const SWAPS = 10;
const RESYNCS = 20;
/** Of repairs in a row, each comes later than the last one. */
const DRIFTS = 4;
const BETWEEN_DRIFTS_MS = 1_500;

export async function* netlink({ rounds }: BenchOptions): AsyncIterable<Table> {
  for (const dataplane of DATAPLANES) yield await small(dataplane, rounds(4));
  yield await large(rounds(3));
  for (const count of [10, 100_000]) yield await storm(count, 15 * rounds(4));
}

async function small(dataplane: Dataplane, rounds: number): Promise<Table> {
  const { bare, own } = await takeTurns(rounds, { bare: bareStart, own: () => measure(dataplane) });
  const baseline = row('bare Node start', 'ms', bare.took);
  return {
    title: `netlink, ${dataplane.backend === 'iptables' ? 'nft mode' : 'nftables'}`,
    rows: [
      baseline,
      row('exec → rules in the kernel, both families', 'ms', own.start, { baseline }),
      row('..data renamed → rules in the kernel, IPv4', 'ms', own.one),
      row('the same, both families', 'ms', own.both),
      row('idle resync, both families: CPU with tools', 'ms', own.resync, { targets: [atMost(5, 'ms')] }),
      row('idle resync, both families: processes', '', own.processes, { targets: [atMost(0, '')] }),
      row('scrape with counts of the kernel: CPU with tools', 'ms', own.scrape),
      row('resident memory', 'MB', own.resident),
      row('chain flushed → repaired', 'ms', own.drift, { targets: [atMost(50, 'ms')] }),
    ],
  };
}

async function bareStart() {
  await using node = await createNode(PLAIN_NODE);
  return await runOnce(node.box, call(process.execPath, '-e', '0'));
}

async function measure(dataplane: Dataplane) {
  const { backend } = dataplane;
  const options = { backend, isAnnounced: true };
  await using node = await createNode(PLAIN_NODE);
  const start = await startTime(node, backend);
  await using recording = await createNode(PLAIN_NODE);
  const { idle } = await record(recording, 'both', options);
  return {
    start,
    processes: idle.length,
    one: await swapTime(node, { ...options, families: 'IPv4' }),
    both: await swapTime(node, { ...options, families: 'both' }),
    ...(await costs(node, dataplane, options)),
  };
}

/** From exec until the rules of both families are in the kernel, in milliseconds. */
async function startTime({ box }: BenchNode, backend: Dataplane['backend']): Promise<number> {
  await using dir = await writeFiles(configFiles(0, 'both'));
  await using generations = await watchGenerations(box);
  const own = [...agentFlags(dir.path, 'both'), `--backend=${backend}`];
  const { start } = await runOnce(box, call(BINARY, '--once', ...own));
  // One for each family, and in nftables one before it for the set.
  const last = backend === 'nftables' ? 3 : 1;
  return (generations.drain()[last]?.at ?? Number.NaN) - start;
}

type Options = Parameters<typeof startAgent>[1];

async function swapTime(node: BenchNode, options: Options): Promise<number> {
  await using agent = await startAgent(node, options);
  const times: number[] = [];
  for (let number = 1; number <= SWAPS + 1; number += 1) {
    times.push(await agent.swap(number));
    await agent.settle();
  }
  return median(times.slice(1)); // the first one compiles
}

async function costs(node: BenchNode, { damage }: Dataplane, options: Omit<Options, 'families'>) {
  await using agent = await startAgent(node, { ...options, families: 'both' });
  // The first ones compile.
  for (let count = 0; count < RESYNCS; count += 1) await agent.scrape();
  await agent.resync(RESYNCS);
  await delay(REST_MS);
  const { resident } = memoryOf(agent.pid);
  const scraped = await cpuDuring(agent.pid, agent.scrape);
  const resync = await agent.resync(RESYNCS);
  const drifts: number[] = [];
  for (let count = 0; count < DRIFTS; count += 1) {
    await delay(BETWEEN_DRIFTS_MS);
    await using generations = await watchGenerations(node.box);
    await succeed(node.box.run(damage[0] ?? '', damage.slice(1)));
    drifts.push(-(await generations.next()).at + (await generations.next()).at);
  }
  return {
    resident,
    scrape: scraped.own + scraped.children,
    resync: resync.own + resync.children,
    drift: median(drifts),
  };
}

/** Many elements in the nftables dataplane. */
async function large(rounds: number): Promise<Table> {
  const [all, half, gone] = [100_000, 50_000, 1_000];
  const of = await takeTurns(rounds, {
    tool: () => addByTool(all),
    more: () => change(all, all + 1),
    fewer: () => change(half, half - gone),
  });
  const tool = row('plain nft add element: CPU', 'ms', of.tool.cpu);
  const names = { more: 'one more of 100,000', fewer: '1,000 of 50,000 go' };
  return {
    title: 'netlink, many entries',
    rows: [
      tool,
      row(`${names.more}: CPU with tools`, 'ms', of.more.cpu, {
        baseline: tool,
        targets: [{ text: '≤ the tool', limit: median(of.tool.cpu) }],
      }),
      row(`${names.fewer}: ..data renamed → done`, 'ms', of.fewer.took),
    ],
  };
}

async function addByTool(count: number) {
  await using node = await createNode(PLAIN_NODE);
  await using dir = await writeFiles(manyFiles(count));
  const flags = [...agentFlags(dir.path, 'IPv4'), '--backend=nftables'];
  await runOnce(node.box, call(BINARY, '--once', ...flags));
  const element = ['ip', 'ip-masq-agent', 'not-masqueraded', '{ 9.9.9.9 }'];
  return await runOnce(node.box, call('nft', 'add', 'element', ...element));
}

async function change(from: number, to: number) {
  await using node = await createNode(PLAIN_NODE);
  const files = (number: number) => manyFiles(number === 0 ? from : to);
  await using agent = await startAgent(node, { families: 'IPv4', backend: 'nftables', files });
  let took = Number.NaN;
  const { own, children } = await cpuDuring(agent.pid, async () => {
    took = await agent.swap(1);
  });
  return { took, cpu: own + children };
}

const STORMER = fileURLToPath(new URL('stormer.ts', import.meta.url));
const RATE = 1_000;

/** Another program changes nf_tables all the time. */
async function storm(count: number, seconds: number): Promise<Table> {
  await using node = await createNode(PLAIN_NODE);
  const files = (number: number) => manyFiles(count + number);
  await using agent = await startAgent(node, { families: 'IPv4', backend: 'nftables', files });
  const set = 'table ip storm { set s { type ipv4_addr; flags interval; }; }';
  await succeed(node.box.run('nft', [set]));
  const rest = await cpuDuring(agent.pid, () => delay(1_000));
  let foreign = Number.NaN;
  const { own, children } = await cpuDuring(agent.pid, async () => {
    const args = [STORMER, `${RATE}`, `${seconds}`];
    const timeoutMs = 10_000 + 2_000 * seconds;
    foreign = Number(await succeed(node.box.run(process.execPath, args, { timeoutMs })));
  });
  const stormed = node.box.run(process.execPath, [STORMER, `${RATE}`, '20']);
  const times: number[] = [];
  for (let number = 1; number <= 5; number += 1) {
    await delay(2_000);
    times.push(await agent.swap(number));
  }
  await stormed;
  return {
    title: `netlink, a storm of foreign changes, nftables with ${count.toLocaleString('en')} entries`,
    rows: [
      row('foreign changes in a second', '', [foreign / seconds]),
      row('agent with tools: share of a core', '%', [(own + children) / (10 * seconds)], {
        targets: [atMost(10, '%')],
      }),
      row('before the storm', '%', [(rest.own + rest.children) / 10]),
      row('..data renamed → done, during the storm', 'ms', times),
    ],
  };
}
