/** What the agent holds: idle, and after many changes. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { type RunningAgent, startAgent } from './agent.ts';
import { createNode, describeNode, type NodeKind } from './node.ts';
import type { BenchOptions, Part } from './part.ts';
import { type Memory, memory } from './proc.ts';
import { atMost, type Row, type Target } from './row.ts';

const FAMILIES = 'both';
const CHANGES = 100;
const MORE_CHANGES = 1_000;

/** Changes after which the memory is read, the last ones: one alone may come before or after the garbage collector. */
const READ_AFTER = 20;

/** Prometheus asks so often. */
const SCRAPE_EVERY_MS = 15_000;

/** Over 900 more changes; garbage that is not collected yet takes up as much. */
const FLAT: Target = {
  text: `≤ settled after ${CHANGES} changes + 5 %`,
  limit: (medianOf) => 1.05 * medianOf(`settled after ${CHANGES} changes, anonymous`),
};

/** After a change the agent collects its garbage: see cmd/ip-masq-agent/settle.ts. */
const SETTLED_MS = 5_000;

const KINDS = ['anonymous', 'resident', 'proportional'] as const;

export const memoryPart: Part = {
  name: 'memory',
  about: 'resident and anonymous: idle with its server on, and after 100 and 1,000 changes',
  measure,
};

interface Idler extends AsyncDisposable {
  readonly kind: NodeKind;
  readonly agent: RunningAgent;
}

async function measure({ nodes, idleMs }: BenchOptions): Promise<readonly Row[]> {
  await using stack = new AsyncDisposableStack();
  const idlers: Idler[] = [];
  for (const kind of nodes) idlers.push(stack.use(await startIdler(kind)));
  const bare = stack.use(await startBareNode());
  await idle(idlers, idleMs);
  const rows: Row[] = [];
  const bareMemory = memory(bare.pid);
  for (const { kind, agent } of idlers) rows.push(...(await rowsOf(kind, agent, bareMemory, idleMs)));
  return rows;
}

async function rowsOf(
  kind: NodeKind,
  agent: RunningAgent,
  bare: Memory,
  idleMs: number,
): Promise<readonly Row[]> {
  const group = `memory, ${describeNode(kind)}, both families`;
  const read = (what: string, samples: readonly Memory[], targets: Partial<Record<keyof Memory, Target>>) =>
    KINDS.map((part): Row => {
      const target = targets[part];
      return {
        group,
        name: `${what}, ${part}`,
        unit: 'MB',
        samples: samples.map((sample) => sample[part]),
        ...(what !== 'bare Node' && { baseline: `bare Node, ${part}` }),
        ...(target !== undefined && { targets: [target] }),
      };
    });
  const seconds = Math.round(idleMs / 1000);
  const limits = { anonymous: atMost(16, 'MB'), resident: atMost(55, 'MB') };
  const rows = [
    ...read('bare Node', [bare], {}),
    ...read(`idle for ${seconds} s`, [memory(agent.pid)], limits),
    ...read(`amid ${CHANGES} changes`, await change(agent, 0, CHANGES), {}),
    ...read(`settled after ${CHANGES} changes`, [await settled(agent)], {}),
  ];
  // Elsewhere it would take minutes, and the agent is the same.
  if (kind.mode !== 'nft' || kind.foreignRules > 0) return rows;
  const many = MORE_CHANGES.toLocaleString('en');
  return [
    ...rows,
    ...read(`amid ${many} changes`, await change(agent, CHANGES, MORE_CHANGES), {}),
    ...read(`settled after ${many} changes`, [await settled(agent)], { anonymous: FLAT }),
  ];
}

async function settled(agent: RunningAgent): Promise<Memory> {
  await delay(SETTLED_MS);
  return memory(agent.pid);
}

async function change(agent: RunningAgent, from: number, to: number): Promise<readonly Memory[]> {
  const samples: Memory[] = [];
  for (let number = from + 1; number <= to; number += 1) {
    await agent.swap(number);
    if (number > to - READ_AFTER) samples.push(memory(agent.pid));
  }
  return samples;
}

async function startIdler(kind: NodeKind): Promise<Idler> {
  await using stack = new AsyncDisposableStack();
  const node = stack.use(await createNode(kind));
  const agent = stack.use(await startAgent(node, { families: FAMILIES }));
  const owned = stack.move();
  return { kind, agent, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

async function startBareNode(): Promise<AsyncDisposable & { readonly pid: number }> {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 2 ** 30)'], { stdio: 'ignore' });
  await once(child, 'spawn');
  const [pid = Number.NaN] = [child.pid];
  return {
    pid,
    [Symbol.asyncDispose]: async () => {
      if (child.kill('SIGKILL')) await once(child, 'exit');
    },
  };
}

/** All at once, scraped as they are on a cluster. */
async function idle(idlers: readonly Idler[], ms: number): Promise<void> {
  const end = performance.now() + ms;
  for (let left = ms; left > 0; left = end - performance.now()) {
    await delay(Math.min(left, SCRAPE_EVERY_MS));
    if (performance.now() < end) for (const { agent } of idlers) await agent.scrape();
  }
}
