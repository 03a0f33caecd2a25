/**
 * Measures the built agent in private network namespaces, beside baselines of the same run, and prints a table. Judges
 * nothing by its exit code. `--help` lists what can be measured alone.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { arch, availableParallelism, loadavg, release } from 'node:os';
import { parseArgs } from 'node:util';
import { connections } from './connections.ts';
import { idle } from './idle.ts';
import { load } from './load.ts';
import { memoryPart } from './memory.ts';
import { NODE_KINDS, type NodeKind } from './node.ts';
import type { Part } from './part.ts';
import { reaction } from './reaction.ts';
import { type Row, resultsOf } from './row.ts';
import { scale } from './scale.ts';
import { scrape } from './scrape.ts';
import { starts } from './starts.ts';
import { table } from './table.ts';

const PARTS: readonly Part[] = [starts, reaction, idle, memoryPart, load, scale, connections, scrape];

const HELP = `Usage: node test/bench/bench.ts [PART…] [--node=NAME]… [--idle=SECONDS]

Parts, all where none is named:
${PARTS.map(({ name, about }) => `  ${name.padEnd(12)} ${about}`).join('\n')}

  --node=NAME      of reaction, idle and memory: only on this kind of node (${NODE_KINDS.map(({ name }) => name).join(', ')})
  --idle=SECONDS   of memory: how long the agents idle before they are looked at; 60 where absent

BENCH_BINARY=FILE in the environment measures another build than bin/ip-masq-agent.
The table goes to standard output; test/bench/out/bench.json has all samples.`;

const OUT = new URL('out/', import.meta.url);

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    help: { type: 'boolean' },
    node: { type: 'string', multiple: true },
    idle: { type: 'string', default: '60' },
  },
});

if (values.help) console.log(HELP);
else await main(named(PARTS, positionals, 'part'), named(NODE_KINDS, values.node ?? [], 'kind of node'));

async function main(parts: readonly Part[], nodes: readonly NodeKind[]): Promise<void> {
  const rows: Row[] = [];
  const begin = performance.now();
  for (const { name, measure } of parts) {
    const start = performance.now();
    process.stderr.write(`${name} …`);
    rows.push(...(await measure({ nodes, idleMs: Number(values.idle) * 1000 })));
    process.stderr.write(` ${Math.round((performance.now() - start) / 1000)} s\n`);
  }
  const results = resultsOf(rows);
  const machine = {
    processors: availableParallelism(),
    arch: arch(),
    kernel: release(),
    node: process.version,
    load: loadavg()[0],
  };
  console.log(table(results));
  const minutes = ((performance.now() - begin) / 60_000).toFixed(1);
  console.log(
    `\n${machine.processors} processors, ${machine.arch}, Linux ${machine.kernel}, Node.js ${machine.node}; ${minutes} minutes`,
  );
  await mkdir(OUT, { recursive: true });
  await writeFile(new URL('bench.json', OUT), `${JSON.stringify({ machine, results }, null, 2)}\n`);
}

/** Those with the names; all where there are none. */
function named<Thing extends { readonly name: string }>(
  things: readonly Thing[],
  names: readonly string[],
  what: string,
): readonly Thing[] {
  const unknown = names.find((name) => !things.some((thing) => thing.name === name));
  if (unknown !== undefined) throw new Error(`no ${what} "${unknown}"; see --help`);
  return names.length === 0 ? things : things.filter(({ name }) => names.includes(name));
}
