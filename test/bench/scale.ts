/** What many entries cost in the nftables dataplane: time, and memory of the agent and of nft. */
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { openNftables } from '../../lib/dataplane/nftables/nftables.ts';
import { boxHost } from '../kernel/support.ts';
import { createBox } from '../lab/box.ts';
import { temporaryDirectory } from '../lab/volume.ts';
import { BINARY } from './agent.ts';
import { manyPolicy, manySources } from './many.ts';
import { type Part, takeTurns } from './part.ts';
import { watchPeaks } from './proc.ts';
import type { Row } from './row.ts';

const COUNTS = [10_000, 100_000];
const RUNS = 5;

const NAMES = {
  first: 'apply on a node without any',
  change: 'apply of one more',
  idle: 'idle resync',
  agent: '--once: peak memory of the agent',
  nft: '--once: peak memory of nft',
} as const;

export const scale: Part = {
  name: 'scale',
  about: 'apply of 10,000 and 100,000 CIDRs in the nftables dataplane, and its memory',
  async measure() {
    const rows: Row[] = [];
    for (const count of COUNTS) rows.push(...(await times(count)), ...(await memory(count)));
    return rows;
  },
};

function row(count: number, name: string, unit: string, samples: readonly number[]): Row {
  return { group: `apply ${count.toLocaleString('en')} CIDRs, nftables`, name, unit, samples };
}

async function times(count: number): Promise<readonly Row[]> {
  const [policy, more] = [manyPolicy(count), manyPolicy(count + 1)];
  const samplesOf = await takeTurns(RUNS, [
    async () => {
      await using box = await createBox();
      const options = { chain: 'IP-MASQ-AGENT', randomFully: true, toPorts: [] };
      const dataplane = await openNftables(options, boxHost(box).host);
      const sync = async (wanted: typeof policy, recall: boolean): Promise<number> => {
        const start = performance.now();
        const observed = await dataplane.observe('IPv4', recall ? 'memory' : 'kernel');
        const plan = observed.plan(wanted);
        if (plan !== undefined) await dataplane.apply(plan);
        return performance.now() - start;
      };
      const first = await sync(policy, false);
      const change = await sync(more, true);
      return { [NAMES.first]: first, [NAMES.change]: change, [NAMES.idle]: await sync(more, false) };
    },
  ]);
  return [NAMES.first, NAMES.change, NAMES.idle].map((name) => row(count, name, 'ms', samplesOf(name)));
}

/** Runs the agent once on files, and watches how large it and its tools become. */
async function memory(count: number): Promise<readonly Row[]> {
  await using box = await createBox();
  await using dir = await temporaryDirectory();
  for (const [name, text] of Object.entries(manySources(count))) await writeFile(`${dir.path}/${name}`, text);
  const flags = ['--once', '--backend=nftables', `--config-dir=${dir.path}`];
  const child = box.spawn(BINARY, flags, { stdio: 'ignore' });
  const { own, tools } = await watchPeaks(child.pid ?? Number.NaN, () => once(child, 'exit'));
  if (child.exitCode !== 0) throw new Error(`the agent ended with ${child.exitCode}`);
  return [row(count, NAMES.agent, 'MB', [own]), row(count, NAMES.nft, 'MB', [tools])];
}
