/** What the agent holds in memory: idle, and after many changes. */
import { spawn } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { type RunningAgent, startAgent } from './agent.ts';
import { createNode, describeNode, type NodeKind, PLAIN_NODE } from './node.ts';
import { atMost, type BenchOptions, median, type Row, row, type Table, type Target } from './part.ts';
import { type Memory, memoryOf } from './proc.ts';

/** The last changes, after each of which the memory is read: once may be just before or after a garbage collection. */
const READ_AFTER = 20;

/** The usual interval of Prometheus. */
const SCRAPE_EVERY_MS = 15_000;

/** The agent collects its garbage 3 seconds after a change. */
const SETTLED_MS = 5_000;

export async function* memory({ nodes, idleMs }: BenchOptions): AsyncIterable<Table> {
  await using stack = new AsyncDisposableStack();
  const agents: [NodeKind, RunningAgent][] = [];
  for (const kind of nodes) {
    const node = stack.use(await createNode(kind));
    agents.push([kind, stack.use(await startAgent(node, { families: 'both' }))]);
  }
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 2 ** 30)'], { stdio: 'ignore' });
  stack.defer(() => void child.kill('SIGKILL'));
  const end = performance.now() + idleMs;
  for (let left = idleMs; left > 0; left = end - performance.now()) {
    await delay(Math.min(left, SCRAPE_EVERY_MS));
    if (performance.now() < end) for (const [, agent] of agents) await agent.scrape();
  }
  const bare = rowsOf('bare Node', [memoryOf(child.pid ?? Number.NaN)]);
  const limits = { anonymous: atMost(24, 'MB') };
  for (const [kind, agent] of agents) {
    const idle = rowsOf(`idle for ${idleMs / 1000} s`, [memoryOf(agent.pid)], bare, limits);
    const title = `memory, ${describeNode(kind)}, both families`;
    const parts = [bare, idle, ...(await changedRows(kind, agent, bare))];
    yield { title, rows: parts.flatMap((rows) => Object.values(rows)) };
  }
}

/** After many changes at full speed. */
async function changedRows(kind: NodeKind, agent: RunningAgent, bare: Rows): Promise<readonly Rows[]> {
  const settled = async () => {
    await delay(SETTLED_MS);
    return [memoryOf(agent.pid)];
  };
  const amid = rowsOf('amid 100 changes', await change(agent, 0, 100), bare);
  const after = rowsOf('settled after 100 changes', await settled(), bare);
  // On the other nodes more changes take minutes, and the agent is the same.
  if (kind !== PLAIN_NODE) return [amid, after];
  const amidMore = rowsOf('amid 1,000 changes', await change(agent, 100, 1_000), bare);
  // Garbage that is not collected yet takes up as much.
  const limit = 1.1 * median(after.anonymous.samples);
  const flat = { anonymous: { text: '≤ settled after 100 changes + 10 %', limit } };
  return [amid, after, amidMore, rowsOf('settled after 1,000 changes', await settled(), bare, flat)];
}

type Rows = Readonly<Record<keyof Memory, Row>>;
type Limits = Partial<Record<keyof Memory, Target>>;

function rowsOf(what: string, samples: readonly Memory[], baseline?: Rows, limits: Limits = {}): Rows {
  const rowOf = (part: keyof Memory) => {
    const numbers = samples.map((sample) => sample[part]);
    const target = limits[part];
    const targets = target === undefined ? [] : [target];
    return row(`${what}, ${part}`, 'MB', numbers, { baseline: baseline?.[part], targets });
  };
  return { anonymous: rowOf('anonymous'), resident: rowOf('resident'), proportional: rowOf('proportional') };
}

async function change(agent: RunningAgent, from: number, to: number): Promise<readonly Memory[]> {
  const samples: Memory[] = [];
  for (let number = from + 1; number <= to; number += 1) {
    await agent.swap(number);
    if (number > to - READ_AFTER) samples.push(memoryOf(agent.pid));
  }
  return samples;
}
