/** How soon the kernel holds the rules after a start and after a change, beside plain tool calls. */
import { watchGenerations } from '../lab/generations.ts';
import { ProjectedVolume, temporaryDirectory } from '../lab/volume.ts';
import { agentFlags, BINARY, startAgent } from './agent.ts';
import { call, record, runOnce, untilWritten } from './calls.ts';
import { type BenchNode, createNode, describeNode, type NodeKind, PLAIN_NODE, resetNat } from './node.ts';
import { atMost, type BenchOptions, mean, median, type Part, row, type Table, takeTurns } from './part.ts';
import { cpuDuring, watchPeaks } from './proc.ts';
import { type Families, sources } from './sources.ts';

const NAMES: Readonly<Record<Families, string>> = { IPv4: 'IPv4', both: 'both families' };

export const starts: Part = {
  name: 'starts',
  about: '--once: exec to first rules in the kernel, and to exit',
  measure: async ({ rounds }) => [await startsOf('IPv4', rounds(25)), await startsOf('both', rounds(25))],
};

async function startsOf(families: Families, rounds: number): Promise<Table> {
  await using node = await createNode(PLAIN_NODE);
  const calls = untilWritten((await record(node, families)).start);
  const of = await takeTurns(rounds, [
    async () => {
      const { took, cpu } = await runOnce(node.box, call(process.execPath, '-e', '0'));
      return { bare: took, bareCpu: cpu };
    },
    async () => {
      await resetNat(node);
      return { script: (await runOnce(node.box, ...calls)).took };
    },
    () => start(node, families),
  ]);
  const bare = row('bare Node start', 'ms', of('bare'));
  const bareCpu = row('bare Node start: CPU', 'ms', of('bareCpu'));
  const script = row('plain tool calls', 'ms', of('script'));
  const target = {
    text: '≤ 3 × bare Node start + tool calls',
    limit: 3 * median(bare.samples) + median(script.samples),
  };
  return {
    title: `start, ${describeNode(PLAIN_NODE)}, ${NAMES[families]}`,
    rows: [
      bare,
      bareCpu,
      script,
      row('exec → first rules in the kernel', 'ms', of('rules'), { baseline: bare, targets: [target] }),
      row('exec → exit', 'ms', of('exit'), { baseline: bare }),
      row('exec → exit: CPU, tools included', 'ms', of('cpu'), { baseline: bareCpu }),
      row('exec → exit, nothing to change', 'ms', of('unchanged'), { baseline: bare }),
    ],
  };
}

/** Runs the agent on a node without its rules, and again on a node that has them. */
async function start(node: BenchNode, families: Families) {
  await using dir = await temporaryDirectory();
  const volume = await ProjectedVolume.create(`${dir.path}/config`, sources(0, families));
  const command = call(BINARY, '--once', ...agentFlags(volume.dir, families));
  await resetNat(node);
  await using generations = await watchGenerations(node.box);
  const first = await runOnce(node.box, command);
  const second = await runOnce(node.box, command);
  const { at = Number.NaN } = generations.drain()[families === 'both' ? 1 : 0] ?? {};
  return { rules: at - first.start, exit: first.took, cpu: first.cpu, unchanged: second.took };
}

export const reaction: Part = {
  name: 'reaction',
  about: '..data renamed to rules in the kernel, and the CPU of a change',
  async measure(options) {
    const tables: Table[] = [];
    for (const kind of options.nodes) {
      tables.push(await reactionOn(kind, 'IPv4', options));
      if (kind.foreignRules === 0) tables.push(await reactionOn(kind, 'both', options));
    }
    return tables;
  },
};

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
  const of = await takeTurns(count, [
    change,
    // Writes the rules of another number: each change of the agent has as much to do as every other.
    async () => {
      const { took, cpu } = await runOnce(node.box, ...calls);
      return { script: took, scriptCpu: cpu };
    },
  ]);
  const { tools } = await watchPeaks(agent.pid, async () => {
    for (let round = 0; round < 5; round += 1) await change(count + round);
  });
  const script = row('plain tool calls', 'ms', of('script'));
  const scriptCpu = row('plain tool calls: CPU', 'ms', of('scriptCpu'));
  const isNft = kind.mode === 'nft';
  const until = isNft ? 'rules in the kernel' : 'the agent says that it is done';
  return {
    title: `reaction, ${describeNode(kind)}, ${NAMES[families]}`,
    rows: [
      script,
      row(`..data renamed → ${until}`, 'ms', of('took'), {
        baseline: script,
        targets: isNft ? [atMost(20, 'ms')] : [],
      }),
      scriptCpu,
      row('a change: CPU of the agent', 'ms', of('own')),
      // The kernel counts in steps of 10 ms: only the mean of many says more.
      row('a change: CPU of its tools (mean)', 'ms', [mean(of('children'))], { baseline: scriptCpu }),
      row('a change: processes', '', [recorded.length]),
      row('a change: peak memory of tools', 'MB', [tools]),
    ],
  };
}
