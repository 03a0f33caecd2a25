/**
 * Measures the built agent in private network namespaces, beside baselines of the same run, and prints tables. The exit
 * code does not depend on the numbers. `--help` lists the parts.
 */
import { arch, availableParallelism, release } from 'node:os';
import { parseArgs } from 'node:util';
import { idle, scrape } from './idle.ts';
import { connections, load, scale } from './many.ts';
import { memoryPart } from './memory.ts';
import { NODE_KINDS } from './node.ts';
import { type Part, printTable } from './part.ts';
import { reaction, starts } from './reaction.ts';

const PARTS: readonly Part[] = [starts, reaction, idle, memoryPart, load, scale, connections, scrape];

const HELP = `Usage: node test/bench/bench.ts [PART…] [--node=NAME]… [--idle=SECONDS] [--rounds=MOST]

Parts, all if none is named:
${PARTS.map(({ name, about }) => `  ${name.padEnd(12)} ${about}`).join('\n')}

  --node=NAME      reaction, idle and memory: only on this kind of node (${NODE_KINDS.map(({ name }) => name).join(', ')})
  --idle=SECONDS   memory: how long the agents idle before their memory is read (default 60)
  --rounds=MOST    all parts but memory: no more rounds than this, to try a part quickly

BENCH_BINARY=FILE in the environment measures another build than bin/ip-masq-agent.`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    help: { type: 'boolean' },
    node: { type: 'string', multiple: true, default: [] },
    idle: { type: 'string', default: '60' },
    rounds: { type: 'string', default: 'Infinity' },
  },
});

if (values.help) console.log(HELP);
else await main();

async function main(): Promise<void> {
  const options = {
    nodes: named(NODE_KINDS, values.node),
    idleMs: Number(values.idle) * 1000,
    rounds: (full: number) => Math.min(full, Number(values.rounds)),
  };
  const begin = performance.now();
  for (const { name, measure } of named(PARTS, positionals)) {
    process.stderr.write(`${name} …\n`);
    for (const table of await measure(options)) console.log(`${printTable(table)}\n`);
  }
  const minutes = ((performance.now() - begin) / 60_000).toFixed(1);
  const machine = `${availableParallelism()} processors, ${arch()}, Linux ${release()}`;
  console.log(`${machine}, Node.js ${process.version}; ${minutes} minutes`);
}

/** The things with these names; all things if there are no names. */
function named<Thing extends { readonly name: string }>(
  things: readonly Thing[],
  names: readonly string[],
): readonly Thing[] {
  const unknown = names.find((name) => !things.some((thing) => thing.name === name));
  if (unknown !== undefined) throw new Error(`unknown name "${unknown}"; see --help`);
  return names.length === 0 ? things : things.filter(({ name }) => names.includes(name));
}
