import type { Generations } from '../lab/generations.ts';
import { succeed } from '../lab/run.ts';
import { type BenchNode, restore } from './node.ts';

const TOOLS = ['iptables', 'ip6tables'];

/** A count that no packet makes. */
const MARK = '[777:777]';

/** How often an action writes to the kernel: in legacy mode how many families it writes to, for nobody tells of it. */
export async function countWrites(
  node: BenchNode,
  chain: string,
  generations: Generations,
  action: () => Promise<unknown>,
): Promise<number> {
  if (node.kind.mode === 'nft') {
    generations.drain();
    await action();
    return generations.drain().length;
  }
  for (const tool of TOOLS) await markFirstRule(node, tool, chain);
  await action();
  const rewritten = await Promise.all(TOOLS.map(async (tool) => !(await hasMark(node, tool, chain))));
  return rewritten.filter((is) => is).length;
}

/** Gives the first rule a count: whoever writes the chain anew begins at zero. */
async function markFirstRule(node: BenchNode, tool: string, chain: string): Promise<void> {
  const rules = await list(node, tool, chain);
  const first = rules.find((line) => line.startsWith(`-A ${chain} `))?.slice(`-A ${chain} `.length);
  await restore(node, tool, [`${MARK} -R ${chain} 1 ${first}`], ['--noflush', '--counters']);
}

async function hasMark(node: BenchNode, tool: string, chain: string): Promise<boolean> {
  return (await list(node, tool, chain, '-v')).some((line) => line.includes('-c 777 777'));
}

async function list({ kind, box }: BenchNode, tool: string, chain: string, ...options: readonly string[]) {
  const args = ['-t', 'nat', ...options, '-S', chain];
  return (await succeed(box.run(`${tool}-${kind.mode}`, args))).split('\n');
}
