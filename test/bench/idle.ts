/** What a resync costs that finds nothing to do, beside what others do at every interval. */
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Box } from '../lab/box.ts';
import { succeed } from '../lab/run.ts';
import { type RunningAgent, startAgent } from './agent.ts';
import { type Call, peakOfCalls, runCalls } from './calls.ts';
import { type BenchNode, createNode, describeNode, type NodeKind } from './node.ts';
import { mean, type Part, type Sample, takeTurns } from './part.ts';
import { cpuTime, watchPeaks } from './proc.ts';
import { recordRunning } from './record.ts';
import type { Row, Target } from './row.ts';
import { CHAIN } from './sources.ts';
import { appendJump, ensureAndRestore, listChain, readChainAndJump, STAND_IN_CHAIN } from './stand-in.ts';
import { countWrites } from './writes.ts';

const BARE_STARTER = fileURLToPath(new URL('bare-starter.ts', import.meta.url));
const FAMILIES = 'both';
const ROUNDS = 5;
const WATCHED = 5;
const WRITE_COUNTS = 3;

/** How long the agent is watched while nothing happens. */
const REST_MS = 10_000;
const MINUTE_MS = 60_000;

const NAMES = {
  list: 'iptables -S of the chain: CPU',
  read: 'reading of chain and jump: CPU',
  standIn: 'stand-in: CPU',
  agent: 'agent and its tools: CPU',
  bare: 'bare Node that starts the reading: CPU of its own',
  own: '  the agent itself: CPU',
  tools: '  its tools: CPU (mean)',
} as const;

export const idle: Part = {
  name: 'idle',
  about: 'resync that finds nothing to do: CPU, processes, writes, memory of tools',
  async measure({ nodes }) {
    const rows: Row[] = [];
    for (const kind of nodes) rows.push(...(await measure(kind)));
    return rows;
  },
};

async function measure(kind: NodeKind): Promise<readonly Row[]> {
  await using node = await createNode(kind);
  const { idle } = await recordRunning(node, FAMILIES);
  await runCalls(node.box, appendJump(kind, FAMILIES));
  const standIn = ensureAndRestore(kind, FAMILIES);
  await using agent = await startAgent(node, { families: FAMILIES });
  const times = kind.mode === 'legacy' && kind.foreignRules > 0 ? 2 : 20;
  const script = (name: string, calls: readonly Call[]) => async (): Promise<Sample> => ({
    [name]: mean((await runCalls(node.box, calls, times)).map(({ cpu }) => cpu)),
  });
  const samplesOf = await takeTurns(ROUNDS, [
    script(NAMES.list, listChain(kind)),
    script(NAMES.read, readChainAndJump(kind, FAMILIES)),
    script(NAMES.standIn, standIn),
    async () => ({ [NAMES.bare]: await cpuOfStarting(node.box, readChainAndJump(kind, FAMILIES), times) }),
    () => cpuOfResyncs(agent, times),
  ]);
  const row = rowMaker(kind);
  const cpu = (name: string) => row(name, 'ms', samplesOf(name));
  return [
    cpu(NAMES.list),
    cpu(NAMES.read),
    cpu(NAMES.standIn),
    { ...cpu(NAMES.agent), baseline: NAMES.standIn, targets: targetsOn(kind) },
    cpu(NAMES.bare),
    { ...cpu(NAMES.own), baseline: NAMES.bare },
    row(NAMES.tools, 'ms', [mean(samplesOf(NAMES.tools))]),
    row('agent between resyncs: CPU in a minute', 'ms', [await cpuOfRest(agent)]),
    ...(await beside(node, agent, idle, standIn)),
  ];
}

/** Of one resync; an agent idle otherwise, so that all that it uses is for the resyncs. */
async function cpuOfResyncs(agent: RunningAgent, times: number): Promise<Sample> {
  let before = cpuTime(agent.pid);
  let after = before;
  const resyncs = await agent.resync(times, {
    begin: () => {
      before = cpuTime(agent.pid);
    },
    end: () => {
      after = cpuTime(agent.pid);
    },
  });
  const own = (after.own - before.own) / resyncs;
  const tools = (after.children - before.children) / resyncs;
  return { [NAMES.agent]: own + tools, [NAMES.own]: own, [NAMES.tools]: tools };
}

/** Of a Node.js that only starts the tools. */
async function cpuOfStarting(box: Box, calls: readonly Call[], times: number): Promise<number> {
  const input = JSON.stringify(calls.map(({ command }) => command));
  return Number(await succeed(box.run(process.execPath, [BARE_STARTER, `${times}`], { input })));
}

/** Of the timers that an agent has which waits for the next resync. */
async function cpuOfRest({ pid }: RunningAgent): Promise<number> {
  const before = cpuTime(pid).own;
  await delay(REST_MS);
  return ((cpuTime(pid).own - before) * MINUTE_MS) / REST_MS;
}

/** Processes, kernel writes and memory of tools, of agent and stand-in. */
async function beside(
  node: BenchNode,
  agent: RunningAgent,
  idle: readonly Call[],
  standIn: readonly Call[],
): Promise<readonly Row[]> {
  const row = rowMaker(node.kind);
  const resync = () => agent.resync(1);
  const standInOnce = () => runCalls(node.box, standIn);
  const writes = async (chain: string, action: () => Promise<unknown>) => {
    const counts: number[] = [];
    for (let time = 0; time < WRITE_COUNTS; time += 1)
      counts.push(await countWrites(node, chain, agent.generations, action));
    return counts;
  };
  const processes = { agent: 'agent: processes', standIn: 'stand-in: processes' };
  const written = { agent: 'agent: kernel writes', standIn: 'stand-in: kernel writes' };
  const peak = { agent: 'agent: peak memory of tools', standIn: 'stand-in: peak memory of tools' };
  const { tools } = await watchPeaks(agent.pid, () => agent.resync(WATCHED));
  return [
    row(processes.standIn, '', [standIn.length]),
    { ...row(processes.agent, '', [idle.length]), baseline: processes.standIn },
    row(written.standIn, '', await writes(STAND_IN_CHAIN, standInOnce)),
    row(written.agent, '', await writes(CHAIN, resync)),
    row(peak.standIn, 'MB', [await peakOfCalls(node.box, standIn, WATCHED)]),
    { ...row(peak.agent, 'MB', [tools]), baseline: peak.standIn },
  ];
}

function rowMaker(kind: NodeKind) {
  const group = `idle resync, ${describeNode(kind)}, both families`;
  return (name: string, unit: string, samples: readonly number[]): Row => ({ group, name, unit, samples });
}

/** Milliseconds of its own that the agent may use. */
const OWN_CPU = 2;

function targetsOn({ mode, foreignRules }: NodeKind): readonly Target[] {
  const reading: Target = {
    text: `≤ reading + ${OWN_CPU} ms`,
    limit: (medianOf) => medianOf(NAMES.read) + OWN_CPU,
  };
  const half: Target = { text: '≤ half of the stand-in', limit: (medianOf) => medianOf(NAMES.standIn) / 2 };
  return mode === 'legacy' && foreignRules > 0 ? [reading, half] : [reading];
}
