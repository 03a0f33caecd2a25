/** From the rename of `..data` until the kernel holds the new rules, and what such a change costs. */
import { startAgent } from './agent.ts';
import { runCalls } from './calls.ts';
import { createNode, describeNode, type NodeKind } from './node.ts';
import { mean, type Part, takeTurns } from './part.ts';
import { cpuTime, watchPeaks } from './proc.ts';
import { recordRunning, untilWritten } from './record.ts';
import { atMost, type Row } from './row.ts';
import type { Families } from './sources.ts';

const TARGET = atMost(20, 'ms');
const SCRIPT = 'plain tool calls';
const SCRIPT_CPU = 'plain tool calls: CPU';

export const reaction: Part = {
  name: 'reaction',
  about: '..data renamed to rules in the kernel, and the CPU of a change',
  async measure({ nodes }) {
    const rows: Row[] = [];
    for (const kind of nodes) {
      rows.push(...(await measure(kind, 'IPv4')));
      if (kind.foreignRules === 0) rows.push(...(await measure(kind, 'both')));
    }
    return rows;
  },
};

async function measure(kind: NodeKind, families: Families): Promise<readonly Row[]> {
  await using node = await createNode(kind);
  const recorded = (await recordRunning(node, families)).change;
  const calls = untilWritten(recorded);
  await using agent = await startAgent(node, { families });
  const change = async (round: number) => {
    const before = cpuTime(agent.pid);
    const took = await agent.swap(2 + round);
    await agent.settle();
    const after = cpuTime(agent.pid);
    return { took, own: after.own - before.own, children: after.children - before.children };
  };
  const script = async () => {
    // Writes the rules of another number: the next change has as much to do as every other.
    const [round] = await runCalls(node.box, calls);
    return { script: round?.took ?? Number.NaN, scriptCpu: round?.cpu ?? Number.NaN };
  };
  const rounds = kind.mode === 'legacy' && kind.foreignRules > 0 ? 8 : 20;
  await change(-1); // the first one compiles
  const samplesOf = await takeTurns(rounds, [change, script]);
  const { tools } = await watchPeaks(agent.pid, async () => {
    for (let round = 0; round < 5; round += 1) await change(rounds + round);
  });
  return rowsOf(kind, families, samplesOf, { processes: recorded.length, peak: tools });
}

function rowsOf(
  kind: NodeKind,
  families: Families,
  samplesOf: (name: string) => readonly number[],
  beside: { readonly processes: number; readonly peak: number },
): readonly Row[] {
  const group = `reaction, ${describeNode(kind)}, ${families === 'both' ? 'both families' : 'IPv4'}`;
  const row = (name: string, unit: string, samples: readonly number[]) => ({ group, name, unit, samples });
  const until = kind.mode === 'nft' ? 'rules in the kernel' : 'the agent says that it is done';
  return [
    row(SCRIPT, 'ms', samplesOf('script')),
    {
      ...row(`..data renamed → ${until}`, 'ms', samplesOf('took')),
      baseline: SCRIPT,
      ...(kind.mode === 'nft' && { targets: [TARGET] }),
    },
    row(SCRIPT_CPU, 'ms', samplesOf('scriptCpu')),
    row('a change: CPU of the agent', 'ms', samplesOf('own')),
    // Told in steps of 10 ms: only the mean of many says more.
    {
      ...row('a change: CPU of its tools (mean)', 'ms', [mean(samplesOf('children'))]),
      baseline: SCRIPT_CPU,
    },
    row('a change: processes', '', [beside.processes]),
    row('a change: peak memory of tools', 'MB', [beside.peak]),
  ];
}
