/**
 * Lets the built agent work at full speed for a long time, and looks for what grows or gets slower: swaps of the volume,
 * scrapes, and repairs of a chain that somebody has flushed. Usage: node test/bench/soak.ts [--changes=10000] [--both]
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { succeed } from '../lab/run.ts';
import { metric, type RunningAgent, startAgent } from './agent.ts';
import { type BenchNode, createNode } from './node.ts';
import { cpuTime, memory, openFiles } from './proc.ts';
import { picture, type Soak, type SoakSample, summary } from './soak-report.ts';
import { CHAIN, type Families, prefixesOf } from './sources.ts';

const KIND = { name: 'nft', mode: 'nft', foreignRules: 0 } as const;
const OUT = new URL('out/', import.meta.url);
const CHANGES_PER_SCRAPE = 10;
const CHANGES_PER_REPAIR = 20;
const SAMPLES = 250;

const { values } = parseArgs({
  options: { changes: { type: 'string', default: '10000' }, both: { type: 'boolean', default: false } },
});
const soaked = await soak(Number(values.changes), values.both ? 'both' : 'IPv4');
await mkdir(OUT, { recursive: true });
await writeFile(new URL('soak.svg', OUT), picture(soaked));
await writeFile(new URL('soak.json', OUT), `${JSON.stringify(soaked, null, 2)}\n`);
console.log(`${summary(soaked)}\n  picture    ${fileURLToPath(new URL('soak.svg', OUT))}`);

async function soak(count: number, families: Families): Promise<Soak> {
  await using node = await createNode(KIND);
  await using agent = await startAgent(node, { families });
  const [changes, repairs, samples]: [number[], number[], SoakSample[]] = [[], [], []];
  let scrapes = 0;
  const before = cpuTime(agent.pid).own;
  for (let change = 1; change <= count; change += 1) {
    changes.push(await agent.swap(change));
    if (change % CHANGES_PER_REPAIR === 0) repairs.push(await repair(node, agent));
    const isSample = change % Math.max(1, Math.floor(count / SAMPLES)) === 0;
    if (isSample || change % CHANGES_PER_SCRAPE === 0) {
      const metrics = await agent.scrape();
      scrapes += 1;
      if (isSample) samples.push(sampleOf(agent.pid, change, metrics));
    }
    if (change % 1_000 === 0) process.stderr.write(`${change} changes\n`);
  }
  const cpu = cpuTime(agent.pid).own - before;
  await agent.settle();
  await assertHolds(node, count);
  return { changes, repairs, scrapes, samples, cpu };
}

/** Flushes the chain, and asks for a resync: milliseconds until the rules are there again. */
async function repair({ box }: BenchNode, { pid, generations }: RunningAgent): Promise<number> {
  await succeed(box.run('iptables-nft', ['-t', 'nat', '-F', CHAIN]));
  const flushed = await generations.next();
  process.kill(pid, 'SIGHUP');
  return (await generations.next()).at - flushed.at;
}

function sampleOf(pid: number, change: number, metrics: string): SoakSample {
  const { resident, anonymous } = memory(pid);
  return {
    change,
    resident,
    anonymous,
    heap: metric(metrics, 'nodejs_heap_size_used_bytes') / 1e6,
    openFiles: openFiles(pid),
    handles: metric(metrics, 'nodejs_active_resources'),
  };
}

/** @throws where the kernel does not hold the sources of that number */
async function assertHolds({ box }: BenchNode, number: number): Promise<void> {
  const rules = await succeed(box.run('iptables-nft', ['-t', 'nat', '-S', CHAIN]));
  const missing = prefixesOf(number, 'IPv4').filter((prefix) => !rules.includes(` ${prefix} `));
  if (missing.length > 0) throw new Error(`after ${number} changes the kernel lacks ${missing.join(', ')}`);
}
