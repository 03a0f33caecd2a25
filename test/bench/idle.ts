/** What the agent costs while nothing changes: resyncs, beside what older agents do at every interval, and scrapes. */
import { setTimeout as delay } from 'node:timers/promises';
import { watchGenerations } from '../lab/generations.ts';
import { startAgent } from './agent.ts';
import { type Call, call, peakOfCalls, record, runCalls } from './calls.ts';
import { CHAIN, prefixesOf } from './config-files.ts';
import { type BenchNode, createNode, describeNode, type NodeKind, PLAIN_NODE, toolsOf } from './node.ts';
import { type BenchOptions, mean, median, row, type Table, takeTurns } from './part.ts';
import { cpuDuring, peakOfTools } from './proc.ts';

/** The agent keeps both. */
const FAMILIES = 'both';

/** How long the agent is watched while nothing happens. */
const REST_MS = 10_000;
const RESTS_PER_MINUTE = 6;

const OFTEN = 50;

/** The agent reads the counts of packets from the kernel if those that it has are older than 15 seconds. */
const STALE_MS = 16_000;

/** Resyncs that find nothing to do. */
export async function* idle(options: BenchOptions): AsyncIterable<Table> {
  for (const kind of options.nodes) yield await idleOn(kind, options);
}

async function idleOn(kind: NodeKind, { rounds }: BenchOptions): Promise<Table> {
  await using node = await createNode(kind);
  const recorded = (await record(node, FAMILIES)).idle;
  const tools = toolsOf(kind);
  await runCalls(node.box, tools.flatMap(appendJump));
  const read = tools.flatMap((tool) => [listChain(tool, CHAIN), listChain(tool, 'POSTROUTING')]);
  const older = tools.flatMap(ensureAndRestore);
  await using agent = await startAgent(node, { families: FAMILIES });

  const isSlow = kind.mode === 'legacy' && kind.foreignRules > 0;
  const times = isSlow ? 2 : 20;
  const cpuOf = async (calls: readonly Call[]) => {
    const cpu = (await runCalls(node.box, calls, times)).map((round) => round.cpu);
    return { cpu: mean(cpu) };
  };
  const of = await takeTurns(rounds(5), {
    read: () => cpuOf(read),
    older: () => cpuOf(older),
    agent: async () => {
      const { own, children } = await agent.resync(times);
      return { own, children, all: own + children };
    },
  });
  const rest = await cpuDuring(agent.pid, () => delay(REST_MS));
  const peak = await peakOfTools(agent.pid, () => agent.resync(5));
  const ownWrites = await countWrites(node, recorded, () => agent.resync(1));
  const olderWrites = await countWrites(node, older, () => runCalls(node.box, older));

  const reading = row('reading of chain and jump: CPU', 'ms', of.read.cpu);
  const standIn = row('stand-in: CPU', 'ms', of.older.cpu);
  const standInProcesses = row('stand-in: processes', '', [older.length]);
  const standInPeak = row('stand-in: peak memory of tools', 'MB', [await peakOfCalls(node.box, older, 5)]);
  const share = isSlow ? 0.5 : 1;
  const targets = [{ text: `≤ ${share} × stand-in`, limit: share * median(standIn.samples) }];
  return {
    title: `idle resync, ${describeNode(kind)}, both families`,
    rows: [
      reading,
      standIn,
      row('agent and its tools: CPU', 'ms', of.agent.all, { baseline: standIn, targets }),
      row('the agent itself: CPU', 'ms', of.agent.own),
      row('its tools: CPU (mean)', 'ms', [mean(of.agent.children)]),
      row('agent between resyncs: CPU in a minute', 'ms', [rest.own * RESTS_PER_MINUTE]),
      standInProcesses,
      row('agent: processes', '', [recorded.length], { baseline: standInProcesses }),
      row('stand-in: kernel writes', '', [olderWrites]),
      row('agent: kernel writes', '', [ownWrites]),
      standInPeak,
      row('agent: peak memory of tools', 'MB', [peak], { baseline: standInPeak }),
    ],
  };
}

function listChain(tool: string, chain: string): Call {
  return call(tool, '--wait', '1', '-t', 'nat', '-S', chain);
}

/** Another chain than the agent's: both stand on one node. */
const STAND_IN_CHAIN = 'STAND-IN';

const JUMP: readonly string[] = [
  ...['-m', 'comment', '--comment'],
  `"ip-masq-agent: ensure nat POSTROUTING directs all non-LOCAL destination traffic to our custom ${STAND_IN_CHAIN} chain"`,
  ...['-m', 'addrtype', '!', '--dst-type', 'LOCAL', '-j', STAND_IN_CHAIN],
];

/** What the older agents run once: the check of the jump has found none. */
function appendJump(tool: string): readonly Call[] {
  return [
    call(tool, '-w', '5', '-N', STAND_IN_CHAIN, '-t', 'nat'),
    call(tool, '-w', '5', '-A', 'POSTROUTING', '-t', 'nat', ...JUMP),
  ];
}

/**
 * What ip-masq-agent (v1) and ip-masq-agent-v2 run at every interval, for each family: `syncMasqRules` with EnsureChain,
 * EnsureRule and RestoreAll of k8s.io/kubernetes/pkg/util/iptables.
 */
function ensureAndRestore(tool: string): readonly Call[] {
  const prefixes = tool.startsWith('ip6')
    ? ['fe80::/10', ...prefixesOf(0, 'IPv6')]
    : ['169.254.0.0/16', ...prefixesOf(0, 'IPv4')];
  const rule = (comment: string, rest: string) =>
    `-A ${STAND_IN_CHAIN} -m comment --comment "ip-masq-agent: ${comment}" ${rest}`;
  const input = [
    '*nat',
    `:${STAND_IN_CHAIN} - [0:0]`,
    ...prefixes.map((prefix) => rule('local traffic is not subject to MASQUERADE', `-d ${prefix} -j RETURN`)),
    rule('outbound traffic is subject to MASQUERADE (must be last in chain)', '-j MASQUERADE'),
    'COMMIT',
    '',
  ].join('\n');
  return [
    call(tool, '-w', '5', '-N', STAND_IN_CHAIN, '-t', 'nat'),
    call(tool, '-w', '5', '-C', 'POSTROUTING', '-t', 'nat', ...JUMP),
    { command: [`${tool}-restore`, '-w', '5', '--noflush'], input },
  ];
}

/** How often calls, or an action that makes them, write to the kernel. */
async function countWrites(
  { box, kind }: BenchNode,
  calls: readonly Call[],
  action: () => Promise<unknown>,
): Promise<number> {
  // Nothing announces a change of iptables-legacy.
  if (kind.mode === 'legacy')
    return calls.filter(({ command: [tool = ''] }) => tool.endsWith('-restore')).length;
  await using generations = await watchGenerations(box);
  await action();
  return generations.drain().length;
}

/** Scrapes of the metrics. */
export async function* scrape({ rounds }: BenchOptions): AsyncIterable<Table> {
  const { fresh, stale, tools, bytes } = (await takeTurns(rounds(6), { agent: costOfScrapes })).agent;
  yield {
    title: `scrape, ${describeNode(PLAIN_NODE)}, both families`,
    rows: [
      row('counts read less than 15 s ago: CPU of the agent', 'ms', fresh),
      row('counts read from the kernel: CPU of the agent', 'ms', stale),
      row('counts read from the kernel: CPU of its tools (mean)', 'ms', [mean(tools)]),
      row('size of the answer', 'bytes', bytes),
    ],
  };
}

async function costOfScrapes() {
  await using node = await createNode(PLAIN_NODE);
  await using agent = await startAgent(node, { families: FAMILIES });
  const scrapeOften = async () => {
    for (let time = 0; time < OFTEN; time += 1) await agent.scrape();
  };
  await scrapeOften(); // the first scrapes compile
  const { own } = await cpuDuring(agent.pid, scrapeOften);
  await delay(STALE_MS);
  const stale = await cpuDuring(agent.pid, agent.scrape);
  const bytes = Buffer.byteLength(await agent.scrape());
  return { fresh: own / OFTEN, stale: stale.own, tools: stale.children, bytes };
}
