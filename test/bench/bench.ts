/**
 * Measures the built agent in private network namespaces, and prints tables. The exit
 * code does not depend on the numbers.
 */
import { arch, availableParallelism, release } from 'node:os';
import { parseArgs } from 'node:util';
import { NODE_KINDS } from './node.ts';
import { type Part, printTable } from './part.ts';
import { idle, memory, reaction, starts } from './parts.ts';
import { sizing } from './sizing.ts';

const PARTS = { starts, reaction, idle, memory, sizing };
const NODES = Object.fromEntries(NODE_KINDS.map((kind) => [kind.name, kind]));

const HELP = `Usage: node test/bench/bench.ts [PART…] [--node=NAME]… [--idle=SECONDS] [--rounds=MOST]

  PART             ${Object.keys(PARTS).join(', ')}; all if none is named
  --node=NAME      reaction, idle and memory: only on this kind of node (${Object.keys(NODES).join(', ')})
  --idle=SECONDS   memory: how long the agents idle before their memory is read (default 60)
  --rounds=MOST    no more rounds than this, to try a part quickly

BENCH_BINARY=FILE in the environment measures another build than bin/ip-masq-agent. README.md here explains the parts.`;

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
    nodes: named(NODES, values.node),
    idleMs: Number(values.idle) * 1000,
    rounds: (full: number) => Math.min(full, Number(values.rounds)),
  };
  const start = performance.now();
  for (const part of named<Part>(PARTS, positionals))
    for await (const table of part(options)) console.log(`${printTable(table)}\n`);
  const minutes = ((performance.now() - start) / 60_000).toFixed(1);
  const machine = `${availableParallelism()} processors, ${arch()}, Linux ${release()}`;
  console.log(`${machine}, Node.js ${process.version}; ${minutes} minutes`);
}

/** The things with these names; all things if there are no names. */
function named<Thing>(things: Readonly<Record<string, Thing>>, names: readonly string[]): readonly Thing[] {
  if (names.length === 0) return Object.values(things);
  return names.map((name) => {
    const thing = things[name];
    if (thing === undefined) throw new Error(`unknown name "${name}"; see --help`);
    return thing;
  });
}
