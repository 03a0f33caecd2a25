/** What the agent holds in memory: idle, and after many changes. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { type RunningAgent, startAgent } from './agent.ts';
import { createNode, describeNode, type NodeKind } from './node.ts';
import {
  atMost,
  type BenchOptions,
  median,
  type Part,
  type Row,
  row,
  type Table,
  type Target,
} from './part.ts';
import { type Memory, memory } from './proc.ts';

/** The last changes, after each of which the memory is read: once may be just before or after a garbage collection. */
const READ_AFTER = 20;

/** The usual interval of Prometheus. */
const SCRAPE_EVERY_MS = 15_000;

/** The agent collects its garbage 3 seconds after a change. */
const SETTLED_MS = 5_000;

export const memoryPart: Part = {
  name: 'memory',
  about: 'resident and anonymous: idle with its server on, and after 100 and 1,000 changes',
  measure,
};

interface Idler {
  readonly kind: NodeKind;
  readonly agent: RunningAgent;
}

async function measure({ nodes, idleMs }: BenchOptions): Promise<readonly Table[]> {
  await using stack = new AsyncDisposableStack();
  const idlers: Idler[] = [];
  for (const kind of nodes) {
    const node = stack.use(await createNode(kind));
    idlers.push({ kind, agent: stack.use(await startAgent(node, { families: 'both' })) });
  }
  const bare = spawn(process.execPath, ['-e', 'setInterval(() => {}, 2 ** 30)'], { stdio: 'ignore' });
  stack.defer(() => void bare.kill('SIGKILL'));
  await once(bare, 'spawn');
  const end = performance.now() + idleMs;
  for (let left = idleMs; left > 0; left = end - performance.now()) {
    await delay(Math.min(left, SCRAPE_EVERY_MS));
    if (performance.now() < end) for (const { agent } of idlers) await agent.scrape();
  }
  const bareRows = rowsOf('bare Node', [memory(bare.pid ?? Number.NaN)]);
  const tables: Table[] = [];
  for (const idler of idlers) tables.push(await tableOf(idler, bareRows, idleMs));
  return tables;
}

async function tableOf({ kind, agent }: Idler, bareRows: Rows, idleMs: number): Promise<Table> {
  const read = (what: string, samples: readonly Memory[], targets: Targets = {}) =>
    rowsOf(what, samples, bareRows, targets);
  const settled = async () => {
    await delay(SETTLED_MS);
    return [memory(agent.pid)];
  };
  const limits = { anonymous: atMost(16, 'MB'), resident: atMost(55, 'MB') };
  const idle = read(`idle for ${Math.round(idleMs / 1000)} s`, [memory(agent.pid)], limits);
  const amid = read('amid 100 changes', await change(agent, 0, 100));
  const after = read('settled after 100 changes', await settled());
  const parts = [bareRows, idle, amid, after];
  // On the other nodes this takes minutes, and the agent is the same.
  if (kind.mode === 'nft' && kind.foreignRules === 0) {
    parts.push(read('amid 1,000 changes', await change(agent, 100, 1_000)));
    // Garbage that is not collected yet takes up as much.
    const limit = 1.05 * median(after.anonymous.samples);
    const flat = { text: '≤ settled after 100 changes + 5 %', limit };
    parts.push(read('settled after 1,000 changes', await settled(), { anonymous: flat }));
  }
  const title = `memory, ${describeNode(kind)}, both families`;
  return { title, rows: parts.flatMap((rows) => Object.values(rows)) };
}

type Rows = Readonly<Record<keyof Memory, Row>>;
type Targets = Partial<Record<keyof Memory, Target>>;

function rowsOf(what: string, samples: readonly Memory[], baseline?: Rows, targets: Targets = {}): Rows {
  const one = (part: keyof Memory) =>
    row(
      `${what}, ${part}`,
      'MB',
      samples.map((sample) => sample[part]),
      { baseline: baseline?.[part], targets: [targets[part] ?? []].flat() },
    );
  return { anonymous: one('anonymous'), resident: one('resident'), proportional: one('proportional') };
}

async function change(agent: RunningAgent, from: number, to: number): Promise<readonly Memory[]> {
  const samples: Memory[] = [];
  for (let number = from + 1; number <= to; number += 1) {
    await agent.swap(number);
    if (number > to - READ_AFTER) samples.push(memory(agent.pid));
  }
  return samples;
}
