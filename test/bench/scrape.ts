/** What a scrape costs the node: with counts that are fresh still, and with the kernel read. */
import { setTimeout as delay } from 'node:timers/promises';
import { type RunningAgent, startAgent } from './agent.ts';
import { createNode } from './node.ts';
import { mean, type Part, type Sample } from './part.ts';
import { cpuTime } from './proc.ts';

const KIND = { name: 'nft', mode: 'nft', foreignRules: 0 } as const;

/** Each scrape that finds the counts stale has an agent of its own: they are stale only every 15 seconds. */
const AGENTS = 6;
const STALE_AFTER_MS = 16_000;
const SCRAPES = 50;

export const scrape: Part = {
  name: 'scrape',
  about: 'CPU of a scrape, with fresh and with stale counts of packets',
  async measure() {
    await using stack = new AsyncDisposableStack();
    const agents: RunningAgent[] = [];
    for (let index = 0; index < AGENTS; index += 1) {
      const node = stack.use(await createNode(KIND));
      agents.push(stack.use(await startAgent(node, { families: 'both' })));
    }
    const fresh: Sample[] = [];
    for (const agent of agents) fresh.push(await cpuOfScrapes(agent, SCRAPES));
    await delay(STALE_AFTER_MS);
    const stale: Sample[] = [];
    for (const agent of agents) stale.push(await cpuOfScrapes(agent, 1));
    const bytes = Buffer.byteLength((await agents[0]?.scrape()) ?? '');
    const group = 'scrape, nft mode, few foreign rules, both families';
    const row = (name: string, unit: string, samples: readonly number[]) => ({ group, name, unit, samples });
    const each = (samples: readonly Sample[], key: string) =>
      samples.map((sample) => sample[key] ?? Number.NaN);
    return [
      row('counts read less than 15 s ago: CPU of the agent', 'ms', each(fresh, 'own')),
      row('counts read from the kernel: CPU of the agent', 'ms', each(stale, 'own')),
      row('  CPU of its tools (mean)', 'ms', [mean(each(stale, 'children'))]),
      row('size of the answer', 'kB', [bytes / 1000]),
    ];
  },
};

/** Of one of so many scrapes; the first ones of an agent, which compile, have been before. */
async function cpuOfScrapes(agent: RunningAgent, times: number): Promise<Sample> {
  if (times > 1) for (let time = 0; time < times; time += 1) await agent.scrape();
  const before = cpuTime(agent.pid);
  for (let time = 0; time < times; time += 1) await agent.scrape();
  const after = cpuTime(agent.pid);
  return {
    own: (after.own - before.own) / times,
    children: (after.children - before.children) / times,
  };
}
