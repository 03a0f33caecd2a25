/** What the agent costs while nothing changes: resyncs, beside what older agents do at every interval, and scrapes. */
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { watchGenerations } from '../lab/generations.ts';
import { succeed } from '../lab/run.ts';
import { type RunningAgent, startAgent } from './agent.ts';
import { type Call, call, peakOfCalls, record, runCalls } from './calls.ts';
import {
  type BenchNode,
  createNode,
  describeNode,
  type NodeKind,
  PLAIN_NODE,
  restore,
  TOOLS,
} from './node.ts';
import { type BenchOptions, mean, median, type Part, row, type Table, takeTurns } from './part.ts';
import { cpuDuring, watchPeaks } from './proc.ts';
import { CHAIN, prefixesOf } from './sources.ts';

const BARE_STARTER = fileURLToPath(new URL('bare-starter.ts', import.meta.url));

/** The agent keeps both. */
const FAMILIES = 'both';

/** How long the agent is watched while nothing happens. */
const REST_MS = 10_000;
const RESTS_PER_MINUTE = 6;

export const idle: Part = {
  name: 'idle',
  about: 'resync that finds nothing to do: CPU, processes, writes, memory of tools',
  async measure(options) {
    const tables: Table[] = [];
    for (const kind of options.nodes) tables.push(await idleOn(kind, options));
    return tables;
  },
};

async function idleOn(kind: NodeKind, { rounds }: BenchOptions): Promise<Table> {
  await using node = await createNode(kind);
  const recorded = (await record(node, FAMILIES)).idle;
  await runCalls(
    node.box,
    TOOLS.flatMap((tool) => appendJump(`${tool}-${kind.mode}`)),
  );
  const list = [listChain(`iptables-${kind.mode}`, CHAIN)];
  const read = TOOLS.flatMap((tool) =>
    [CHAIN, 'POSTROUTING'].map((chain) => listChain(`${tool}-${kind.mode}`, chain)),
  );
  const older = TOOLS.flatMap((tool) => ensureAndRestore(tool, kind));
  await using agent = await startAgent(node, { families: FAMILIES });

  const isSlow = kind.mode === 'legacy' && kind.foreignRules > 0;
  const times = isSlow ? 2 : 20;
  const cpuOf = async (calls: readonly Call[]) =>
    mean((await runCalls(node.box, calls, times)).map(({ cpu }) => cpu));
  const of = await takeTurns(rounds(5), [
    async () => ({ list: await cpuOf(list) }),
    async () => ({ read: await cpuOf(read) }),
    async () => ({ older: await cpuOf(older) }),
    async () => ({ bare: await cpuOfStarting(node, read, times) }),
    async () => {
      const { own, children } = await agent.resync(times);
      return { own, children, all: own + children };
    },
  ]);
  const rest = await cpuDuring(agent.pid, () => delay(REST_MS));
  const peaks = await watchPeaks(agent.pid, () => agent.resync(5));
  const writes = (chain: string, action: () => Promise<unknown>) =>
    takeTurns(rounds(3), [async () => ({ count: await countWrites(node, chain, action) })]);
  const ownWrites = await writes(CHAIN, () => agent.resync(1));
  const olderWrites = await writes(STAND_IN_CHAIN, () => runCalls(node.box, older));

  const reading = row('reading of chain and jump: CPU', 'ms', of('read'));
  const standIn = row('stand-in: CPU', 'ms', of('older'));
  const bare = row('bare Node that starts the reading: CPU of its own', 'ms', of('bare'));
  const standInProcesses = row('stand-in: processes', '', [older.length]);
  const standInPeak = row('stand-in: peak memory of tools', 'MB', [await peakOfCalls(node.box, older, 5)]);
  const targets = [
    { text: '≤ reading + 2 ms', limit: median(reading.samples) + 2 },
    ...(isSlow ? [{ text: '≤ half of the stand-in', limit: median(standIn.samples) / 2 }] : []),
  ];
  return {
    title: `idle resync, ${describeNode(kind)}, both families`,
    rows: [
      row('iptables -S of the chain: CPU', 'ms', of('list')),
      reading,
      standIn,
      row('agent and its tools: CPU', 'ms', of('all'), { baseline: standIn, targets }),
      bare,
      row('the agent itself: CPU', 'ms', of('own'), { baseline: bare }),
      row('its tools: CPU (mean)', 'ms', [mean(of('children'))]),
      row('agent between resyncs: CPU in a minute', 'ms', [rest.own * RESTS_PER_MINUTE]),
      standInProcesses,
      row('agent: processes', '', [recorded.length], { baseline: standInProcesses }),
      row('stand-in: kernel writes', '', olderWrites('count')),
      row('agent: kernel writes', '', ownWrites('count')),
      standInPeak,
      row('agent: peak memory of tools', 'MB', [peaks.tools], { baseline: standInPeak }),
    ],
  };
}

/** The CPU of a Node.js that only starts the tools. */
async function cpuOfStarting({ box }: BenchNode, calls: readonly Call[], times: number): Promise<number> {
  const input = JSON.stringify(calls.map(({ command }) => command));
  return Number(await succeed(box.run(process.execPath, [BARE_STARTER, `${times}`], { input })));
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
function ensureAndRestore(tool: 'iptables' | 'ip6tables', { mode }: NodeKind): readonly Call[] {
  const prefixes =
    tool === 'iptables'
      ? ['169.254.0.0/16', ...prefixesOf(0, 'IPv4')]
      : ['fe80::/10', ...prefixesOf(0, 'IPv6')];
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
    call(`${tool}-${mode}`, '-w', '5', '-N', STAND_IN_CHAIN, '-t', 'nat'),
    call(`${tool}-${mode}`, '-w', '5', '-C', 'POSTROUTING', '-t', 'nat', ...JUMP),
    { command: [`${tool}-${mode}-restore`, '-w', '5', '--noflush'], input },
  ];
}

/** How often an action writes to the kernel. In legacy mode, which announces nothing: to how many families. */
async function countWrites(node: BenchNode, chain: string, action: () => Promise<unknown>): Promise<number> {
  if (node.kind.mode === 'nft') {
    await using generations = await watchGenerations(node.box);
    await action();
    return generations.drain().length;
  }
  const list = async (tool: string) =>
    await succeed(node.box.run(`${tool}-legacy`, ['-t', 'nat', '-v', '-S', chain]));
  // Whoever writes a chain anew sets its counters to zero: the first rule gets a count that no packet makes.
  for (const tool of TOOLS) {
    const [, first] = /^-A \S+ (.*) -c /m.exec(await list(tool)) ?? [];
    await restore(node, tool, [`[777:777] -R ${chain} 1 ${first}`], ['--noflush', '--counters']);
  }
  await action();
  const listings = await Promise.all(TOOLS.map(list));
  return listings.filter((listing) => !listing.includes('-c 777 777')).length;
}

export const scrape: Part = {
  name: 'scrape',
  about: 'CPU of a scrape, with fresh and with stale counts of packets',
  async measure({ rounds }) {
    await using stack = new AsyncDisposableStack();
    const agents: RunningAgent[] = [];
    // The counts of one agent are stale only once in 15 seconds.
    for (let index = 0; index < rounds(6); index += 1) {
      const node = stack.use(await createNode(PLAIN_NODE));
      agents.push(stack.use(await startAgent(node, { families: FAMILIES })));
    }
    const scrapes = async (agent: RunningAgent, times: number) => {
      for (let time = 0; time < times; time += 1) await agent.scrape();
    };
    const [fresh, stale, staleTools]: [number[], number[], number[]] = [[], [], []];
    for (const agent of agents) {
      await scrapes(agent, 50); // the first ones compile
      fresh.push((await cpuDuring(agent.pid, () => scrapes(agent, 50))).own / 50);
    }
    await delay(16_000);
    for (const agent of agents) {
      const { own, children } = await cpuDuring(agent.pid, () => agent.scrape());
      stale.push(own);
      staleTools.push(children);
    }
    const answer = (await agents[0]?.scrape()) ?? '';
    return [
      {
        title: `scrape, ${describeNode(PLAIN_NODE)}, both families`,
        rows: [
          row('counts read less than 15 s ago: CPU of the agent', 'ms', fresh),
          row('counts read from the kernel: CPU of the agent', 'ms', stale),
          row('counts read from the kernel: CPU of its tools (mean)', 'ms', [mean(staleTools)]),
          row('size of the answer', 'kB', [Buffer.byteLength(answer) / 1000]),
        ],
      },
    ];
  },
};
