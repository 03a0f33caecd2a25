/**
 * Lets the built agent work at full speed for a long time, and prints what grows or gets slower: changes of the volume,
 * scrapes, and repairs of a flushed chain. Usage: node test/bench/soak.ts [--changes=10000] [--both] [--netlink=off]
 */
import { readdirSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { watchGenerations } from '../lab/generations.ts';
import { succeed } from '../lab/run.ts';
import { startAgent } from './agent.ts';
import { CHAIN, prefixesOf } from './config-files.ts';
import { createNode, PLAIN_NODE } from './node.ts';
import { digits, markdown, mean, quantile } from './part.ts';
import { cpuDuring, memoryOf } from './proc.ts';

const CHANGES_PER_SCRAPE = 10;
const CHANGES_PER_REPAIR = 20;

const { values } = parseArgs({
  options: {
    changes: { type: 'string', default: '10000' },
    both: { type: 'boolean', default: false },
    netlink: { type: 'string', default: 'auto' },
  },
});
await soak(Number(values.changes));

async function soak(count: number): Promise<void> {
  await using node = await createNode(PLAIN_NODE);
  const flags = [`--netlink=${values.netlink}`];
  await using agent = await startAgent(node, { families: values.both ? 'both' : 'IPv4', flags });
  await using generations = await watchGenerations(node.box);
  const { pid } = agent;

  /** Flushes the chain, and asks for a resync: milliseconds until the rules are there again. */
  const repair = async () => {
    generations.drain();
    await succeed(node.box.run('iptables-nft', ['-t', 'nat', '-F', CHAIN]));
    const flushed = await generations.next();
    process.kill(pid, 'SIGHUP');
    return (await generations.next()).at - flushed.at;
  };

  const [changes, repairs]: [number[], number[]] = [[], []];
  const samples: ReturnType<typeof sampleOf>[] = [];
  const cpu = await cpuDuring(pid, async () => {
    for (let change = 1; change <= count; change += 1) {
      changes.push(await agent.swap(change));
      if (change % CHANGES_PER_REPAIR === 0) repairs.push(await repair());
      if (change % CHANGES_PER_SCRAPE === 0) {
        await agent.scrape();
        samples.push(sampleOf(pid));
      }
      if (change % 1_000 === 0) process.stderr.write(`${change} changes\n`);
    }
  });
  await agent.settle();
  const rules = await succeed(node.box.run('iptables-nft', ['-t', 'nat', '-S', CHAIN]));
  const missing = prefixesOf(count, 'IPv4').filter((prefix) => !rules.includes(` ${prefix} `));
  if (missing.length > 0) throw new Error(`after ${count} changes the kernel lacks ${missing.join(', ')}`);

  const what = `${count} changes, ${repairs.length} repairs, ${samples.length} scrapes`;
  const each = digits(cpu.own / count);
  console.log(`${what}; ${each} ms CPU of the agent itself for each change and what comes with it\n`);
  const line = (name: string, numbers: readonly number[], share = 0.5) => lineOf(name, numbers, share, count);
  const sampled = (name: keyof ReturnType<typeof sampleOf>) => samples.map((sample) => sample[name]);
  const tenths = Array.from({ length: 10 }, (_, tenth) => `${tenth + 1}`);
  const lines = [
    ['tenth of the run', ...tenths, 'most', 'growth'],
    line('resident, MB', sampled('resident')),
    line('anonymous, MB', sampled('anonymous')),
    line('reaction, ms', changes),
    line('reaction, p95, ms', changes, 0.95),
    line('repair, ms', repairs),
    line('repair, p95, ms', repairs, 0.95),
    line('open files', sampled('openFiles')),
  ];
  console.log(`${markdown(lines)}\n\nMedians; growth is that of the last half, in 1,000 changes.`);
}

function sampleOf(pid: number) {
  const { resident, anonymous } = memoryOf(pid);
  const openFiles = readdirSync(`/proc/${pid}/fd`).length;
  return { resident, anonymous, openFiles };
}

/** Numbers that are spread evenly over so many changes: a quantile of each tenth, the most, and the growth. */
function lineOf(name: string, numbers: readonly number[], share: number, changes: number): readonly string[] {
  const { length } = numbers;
  const tenths = Array.from({ length: 10 }, (_, tenth) =>
    quantile(numbers.slice((tenth * length) / 10, ((tenth + 1) * length) / 10), share),
  );
  const growth = slopeOf(numbers.slice(length / 2)) * (length / changes) * 1_000;
  return [name, ...[...tenths, Math.max(...numbers), growth].map(digits)];
}

/** The slope of the line that fits best, by least squares, from each number to the next. */
function slopeOf(numbers: readonly number[]): number {
  const [x, y] = [(numbers.length - 1) / 2, mean(numbers)];
  const rise = numbers.reduce((sum, number, index) => sum + (index - x) * (number - y), 0);
  return rise / numbers.reduce((sum, _, index) => sum + (index - x) ** 2, 0);
}
