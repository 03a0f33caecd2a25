/** From exec to the first rules in the kernel. */
import { watchGenerations } from '../lab/generations.ts';
import { ProjectedVolume, temporaryDirectory } from '../lab/volume.ts';
import { agentFlags, BINARY } from './agent.ts';
import { call, runCall, runCalls } from './calls.ts';
import { type BenchNode, createNode, resetNat } from './node.ts';
import { type Part, type Subject, takeTurns } from './part.ts';
import { recordOnce, untilWritten } from './record.ts';
import type { Row } from './row.ts';
import { type Families, sources } from './sources.ts';

const ROUNDS = 25;
const NODE_START = 'bare Node start';
const NODE_CPU = 'bare Node start: CPU';
const KIND = { name: 'nft', mode: 'nft', foreignRules: 0 } as const;
const ALL_FAMILIES: readonly Families[] = ['IPv4', 'both'];

export const starts: Part = {
  name: 'starts',
  about: 'exec to first rules in the kernel, of --once with 3 sources',
  async measure() {
    await using node = await createNode(KIND);
    const subjects: Subject[] = [bareNode(node)];
    const rows: Row[] = [];
    for (const families of ALL_FAMILIES) {
      const calls = untilWritten(await recordOnce(node, families));
      const script = async () => {
        await resetNat(node);
        const [round] = await runCalls(node.box, calls);
        return { [names(families).script]: round?.took ?? Number.NaN };
      };
      subjects.push(script, once(node, families));
      rows.push(...rowsOf(families));
    }
    const samplesOf = await takeTurns(ROUNDS, subjects);
    return [row(NODE_START), row(NODE_CPU), ...rows].map((row) => ({ ...row, samples: samplesOf(row.name) }));
  },
};

function names(families: Families) {
  const what = families === 'both' ? 'both families' : 'IPv4';
  return {
    script: `${what}: plain tool calls`,
    rules: `${what}: exec → first rules in the kernel`,
    exit: `${what}: exec → exit`,
    cpu: `${what}: exec → exit: CPU, tools included`,
    unchanged: `${what}: exec → exit, nothing to change`,
  };
}

function bareNode({ box }: BenchNode) {
  return async () => {
    const { took, cpu } = await runCall(box, call(process.execPath, '-e', '0'));
    return { [NODE_START]: took, [NODE_CPU]: cpu };
  };
}

/** The agent on a node that has no rules of it, and again where they are there. */
function once(node: BenchNode, families: Families) {
  const { rules, exit, cpu, unchanged } = names(families);
  return async () => {
    await using dir = await temporaryDirectory();
    const volume = await ProjectedVolume.create(`${dir.path}/config`, sources(0, families));
    const command = call(BINARY, '--once', ...agentFlags(volume.dir, families));
    await resetNat(node);
    await using generations = await watchGenerations(node.box);
    const first = await runCall(node.box, command);
    const second = await runCall(node.box, command);
    const { at } = generations.drain().at(families === 'both' ? 1 : 0) ?? { at: Number.NaN };
    return { [rules]: at - first.start, [exit]: first.took, [cpu]: first.cpu, [unchanged]: second.took };
  };
}

function row(name: string): Row {
  return { group: 'start, nft mode, few foreign rules', name, unit: 'ms', samples: [] };
}

function rowsOf(families: Families): readonly Row[] {
  const { script, rules, exit, cpu, unchanged } = names(families);
  const target = {
    text: '≤ 3 × bare Node start + tool calls',
    limit: (medianOf: (name: string) => number) => 3 * medianOf(NODE_START) + medianOf(script),
  };
  return [
    row(script),
    { ...row(rules), baseline: NODE_START, targets: [target] },
    { ...row(exit), baseline: NODE_START },
    { ...row(cpu), baseline: NODE_CPU },
    { ...row(unchanged), baseline: NODE_START },
  ];
}
