/** How soon the kernel holds the rules after a start and after a change, beside plain tool calls. */
import { watchGenerations } from '../lab/generations.ts';
import { agentFlags, BINARY, startAgent } from './agent.ts';
import { call, record, runOnce, untilWritten } from './calls.ts';
import { configFiles, type Families, writeFiles } from './config-files.ts';
import { type BenchNode, createNode, describeNode, type NodeKind, PLAIN_NODE, resetNat } from './node.ts';
import { type BenchOptions, mean, median, row, type Table, takeTurns } from './part.ts';
import { cpuDuring, peakOfTools } from './proc.ts';

const NAMES: Readonly<Record<Families, string>> = { IPv4: 'IPv4', both: 'both families' };

/** `--once`. */
export async function* starts({ rounds }: BenchOptions): AsyncIterable<Table> {
  yield await startsOf('IPv4', rounds(25));
  yield await startsOf('both', rounds(25));
}

async function startsOf(families: Families, rounds: number): Promise<Table> {
  await using node = await createNode(PLAIN_NODE);
  const calls = untilWritten((await record(node, families)).start);
  const { bare, script, agent } = await takeTurns(rounds, {
    bare: () => runOnce(node.box, call(process.execPath, '-e', '0')),
    script: async () => {
      await resetNat(node);
      return await runOnce(node.box, ...calls);
    },
    agent: () => start(node, families),
  });
  const bareStart = row('bare Node start', 'ms', bare.took);
  const bareCpu = row('bare Node start: CPU', 'ms', bare.cpu);
  const tools = row('plain tool calls', 'ms', script.took);
  const target = {
    text: '≤ 5 × bare Node start + tool calls',
    limit: 5 * median(bareStart.samples) + median(tools.samples),
  };
  return {
    title: `start, ${describeNode(PLAIN_NODE)}, ${NAMES[families]}`,
    rows: [
      bareStart,
      bareCpu,
      tools,
      row('exec → first rules in the kernel', 'ms', agent.rules, { baseline: bareStart, targets: [target] }),
      row('exec → /readyz is ok', 'ms', agent.ready, { baseline: bareStart }),
      row('exec → exit', 'ms', agent.exit, { baseline: bareStart }),
      row('exec → exit: CPU, tools included', 'ms', agent.cpu, { baseline: bareCpu }),
      row('exec → exit, nothing to change', 'ms', agent.unchanged, { baseline: bareStart }),
    ],
  };
}

/** Runs the agent on a node without its rules, again on a node that has them, and once more without them, to stay. */
async function start(node: BenchNode, families: Families) {
  await using dir = await writeFiles(configFiles(0, families));
  const command = call(BINARY, '--once', ...agentFlags(dir.path, families));
  await resetNat(node);
  await using generations = await watchGenerations(node.box);
  const first = await runOnce(node.box, command);
  const second = await runOnce(node.box, command);
  const { at = Number.NaN } = generations.drain()[families === 'both' ? 1 : 0] ?? {};
  await resetNat(node);
  await using staying = await startAgent(node, { families });
  const { ready } = staying;
  return { rules: at - first.start, ready, exit: first.took, cpu: first.cpu, unchanged: second.took };
}

/** Changes of a projected volume. */
export async function* reaction(options: BenchOptions): AsyncIterable<Table> {
  for (const kind of options.nodes) {
    yield await reactionOn(kind, 'IPv4', options);
    if (kind.foreignRules === 0) yield await reactionOn(kind, 'both', options);
  }
}

async function reactionOn(kind: NodeKind, families: Families, { rounds }: BenchOptions): Promise<Table> {
  await using node = await createNode(kind);
  const recorded = (await record(node, families)).change;
  const calls = untilWritten(recorded);
  await using agent = await startAgent(node, { families });
  const change = async (round: number) => {
    let took = Number.NaN;
    const { own, children } = await cpuDuring(agent.pid, async () => {
      took = await agent.swap(2 + round);
      await agent.settle();
    });
    return { took, own, children };
  };
  await change(-1); // the first one compiles
  const count = rounds(kind.mode === 'legacy' && kind.foreignRules > 0 ? 8 : 20);
  const { changes, script } = await takeTurns(count, {
    changes: change,
    // Writes the rules of another number: each change of the agent has as much to do as every other.
    script: () => runOnce(node.box, ...calls),
  });
  const peak = await peakOfTools(agent.pid, async () => {
    for (let round = 0; round < 5; round += 1) await change(count + round);
  });
  const tools = row('plain tool calls', 'ms', script.took);
  const toolsCpu = row('plain tool calls: CPU', 'ms', script.cpu);
  const isNft = kind.mode === 'nft';
  const until = isNft ? 'rules in the kernel' : 'the agent says that it is done';
  return {
    title: `reaction, ${describeNode(kind)}, ${NAMES[families]}`,
    rows: [
      tools,
      row(`..data renamed → ${until}`, 'ms', changes.took, {
        baseline: tools,
        targets: isNft ? [{ text: '≤ 1.2 × plain tool calls', limit: 1.2 * median(tools.samples) }] : [],
      }),
      toolsCpu,
      row('a change: CPU of the agent', 'ms', changes.own),
      // The kernel counts in steps of 10 ms: only the mean of many says more.
      row('a change: CPU of its tools (mean)', 'ms', [mean(changes.children)], {
        baseline: toolsCpu,
      }),
      row('a change: processes', '', [recorded.length]),
      row('a change: peak memory of tools', 'MB', [peak]),
    ],
  };
}
