import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { watchGenerations } from '../lab/generations.ts';
import { agentFlags, BINARY, startAgent } from './agent.ts';
import { configFiles, writeFiles } from './config-files.ts';
import { type BenchNode, createNode, describeNode, PLAIN_NODE, resetNat } from './node.ts';
import type { BenchOptions, Row, Table } from './part.ts';
import { cpuDuring, memoryOf } from './proc.ts';

/** How long the agent is watched while nothing happens. */
const REST_MS = 10_000;
/** The agent collects its garbage 3 seconds after a change. */
const SETTLED_MS = 5_000;

/** `--once`, in turns with a bare Node: whatever slows the machine for a while slows both. */
export async function* starts({ rounds }: BenchOptions): AsyncIterable<Table> {
  await using node = await createNode(PLAIN_NODE);
  await using dir = await writeFiles(configFiles(0));
  const [bare, rules, exit]: [number[], number[], number[]] = [[], [], []];
  for (let round = 0; round < rounds(25); round += 1) {
    const { start, end } = await runOnce(node, process.execPath, '-e', '0');
    bare.push(end - start);
    await resetNat(node);
    await using generations = await watchGenerations(node.box);
    const agent = await runOnce(node, BINARY, '--once', ...agentFlags(dir.path));
    const last = generations.drain().at(-1);
    rules.push((last?.at ?? Number.NaN) - agent.start);
    exit.push(agent.end - agent.start);
  }
  const baseline: Row = { name: 'bare Node start', unit: 'ms', samples: bare };
  const rows: readonly Row[] = [
    baseline,
    { name: 'exec → rules in the kernel', unit: 'ms', samples: rules, baseline },
    { name: 'exec → exit', unit: 'ms', samples: exit, baseline },
  ];
  yield { title: `start, ${describeNode(PLAIN_NODE)}`, rows };
}

async function runOnce({ box }: BenchNode, file: string, ...args: readonly string[]) {
  const start = performance.now();
  const [code] = await once(box.spawn(file, args, { stdio: 'ignore' }), 'exit');
  if (code !== 0) throw new Error(`${file} ends with code ${code}`);
  return { start, end: performance.now() };
}

/** Changes of a projected volume. */
export async function* reaction({ nodes, rounds }: BenchOptions): AsyncIterable<Table> {
  for (const kind of nodes) {
    await using node = await createNode(kind);
    await using agent = await startAgent(node);
    await agent.swap(1); // the first one compiles
    const [took, own, children]: [number[], number[], number[]] = [[], [], []];
    for (let round = 0; round < rounds(20); round += 1) {
      const cpu = await cpuDuring(agent.pid, async () => {
        took.push(await agent.swap(2 + round));
        await agent.settle();
      });
      own.push(cpu.own);
      children.push(cpu.children);
    }
    const until = kind.mode === 'nft' ? 'rules in the kernel' : 'the agent says that it is done';
    const rows: readonly Row[] = [
      { name: `..data renamed → ${until}`, unit: 'ms', samples: took },
      { name: 'CPU of the agent for a change', unit: 'ms', samples: own },
      { name: 'CPU of its tools', unit: 'ms', samples: children },
    ];
    yield { title: `reaction, ${describeNode(kind)}`, rows };
  }
}

/** Resyncs that find nothing to do, and the time between. */
export async function* idle({ nodes, rounds }: BenchOptions): AsyncIterable<Table> {
  for (const kind of nodes) {
    await using node = await createNode(kind);
    await using agent = await startAgent(node);
    const resyncs = await agent.resync(rounds(20));
    const rest = await cpuDuring(agent.pid, () => delay(REST_MS));
    const rows: readonly Row[] = [
      { name: 'resync: CPU of the agent', unit: 'ms', samples: [resyncs.own] },
      { name: 'resync: CPU of its tools', unit: 'ms', samples: [resyncs.children] },
      { name: 'between resyncs: CPU in a minute', unit: 'ms', samples: [(rest.own * 60_000) / REST_MS] },
    ];
    yield { title: `idle, ${describeNode(kind)}`, rows };
  }
}

/** After a while without changes, and after many at full speed. */
export async function* memory({ nodes, idleMs, rounds }: BenchOptions): AsyncIterable<Table> {
  for (const kind of nodes) {
    await using node = await createNode(kind);
    await using agent = await startAgent(node);
    const rows: Row[] = [];
    const read = (when: string) => {
      for (const [name, value] of Object.entries(memoryOf(agent.pid)))
        rows.push({ name: `${name}, ${when}`, unit: 'MB', samples: [value] });
    };
    await delay(idleMs);
    read('idle');
    let number = 0;
    for (const changes of [100, 1_000]) {
      while (number < rounds(changes)) {
        number += 1;
        await agent.swap(number);
      }
      await delay(SETTLED_MS);
      read(`after ${number} changes`);
    }
    yield { title: `memory, ${describeNode(kind)}`, rows };
  }
}
