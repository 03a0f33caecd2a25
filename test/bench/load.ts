/** Files to merged config, by number of CIDRs: in a process that does nothing else, and as the agent's command `check`. */
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { ownBox } from '../lab/box.ts';
import { type Environment, run, succeed } from '../lab/run.ts';
import { temporaryDirectory } from '../lab/volume.ts';
import { BINARY } from './agent.ts';
import { call, runCall } from './calls.ts';
import { manySources } from './many.ts';
import { type Part, type Sample, takeTurns } from './part.ts';
import { atMost, type Row } from './row.ts';

const COUNTS = [10_000, 100_000];
const ROUNDS = 7;

/** Of the largest. */
const TIME = [atMost(1_500, 'ms')];
const MEMORY = [atMost(150, 'MB')];

const WORKER = fileURLToPath(new URL('load-worker.ts', import.meta.url));

export const load: Part = {
  name: 'load',
  about: 'load, validate and merge of 10,000 and 100,000 CIDRs',
  async measure() {
    await using dir = await temporaryDirectory();
    const worker = `${dir.path}/worker.mjs`;
    await bundle(worker);
    const rows: Row[] = [];
    for (const count of COUNTS) rows.push(...(await measure(count, worker)));
    return rows;
  },
};

async function measure(count: number, worker: string): Promise<readonly Row[]> {
  await using box = await ownBox();
  await using sources = await temporaryDirectory();
  for (const [name, text] of Object.entries(manySources(count)))
    await writeFile(`${sources.path}/${name}`, text);
  const { flags, env } = await launcher();
  const files = Object.keys(manySources(count)).map((name) => `${sources.path}/${name}`);
  const samplesOf = await takeTurns(ROUNDS, [
    async () => ({ bare: (await runCall(box, call(process.execPath, '-e', '0'))).peak }),
    async (): Promise<Sample> => {
      const args = ['--expose-gc', ...flags, worker, sources.path];
      return JSON.parse(await succeed(run({ file: process.execPath, args }, env)));
    },
    async () => {
      const { took, peak } = await runCall(box, call(BINARY, 'check', ...files));
      return { checkTook: took, checkPeak: peak };
    },
  ]);
  return rowsOf(count, samplesOf);
}

const BARE = 'bare Node: peak resident memory';

function rowsOf(count: number, samplesOf: (name: string) => readonly number[]): readonly Row[] {
  const group = `load, validate and merge ${count.toLocaleString('en')} CIDRs`;
  const row = (name: string, unit: string, key: string) => ({ group, name, unit, samples: samplesOf(key) });
  const [time, memory] = count === COUNTS.at(-1) ? [TIME, MEMORY] : [[], []];
  return [
    { ...row('files to merged config', 'ms', 'took'), targets: time },
    row('  CPU', 'ms', 'cpu'),
    row(BARE, 'MB', 'bare'),
    { ...row('  peak resident memory', 'MB', 'peak'), baseline: BARE, targets: memory },
    row('  heap that the result holds', 'MB', 'heap'),
    row('exec → exit of `check`', 'ms', 'checkTook'),
    { ...row('  peak resident memory', 'MB', 'checkPeak'), baseline: BARE },
  ];
}

/** What the first line of the agent says of how Node is to run: it changes what memory is taken. */
async function launcher(): Promise<{ readonly flags: readonly string[]; readonly env: Environment }> {
  const [line = ''] = (await readFile(BINARY, 'utf8')).split('\n');
  const words = line.split(' ');
  const settings = words.flatMap((word) => (/^[A-Z_]+=/.test(word) ? [word.split('=')] : []));
  return {
    flags: words.filter((word) => word.startsWith('--')),
    env: Object.fromEntries(settings.map(([name = '', value = '']) => [name, value])),
  };
}

/** Like the agent's own bundle: the memory of what runs TypeScript directly would be measured too. */
async function bundle(outfile: string): Promise<void> {
  await build({
    entryPoints: [WORKER],
    outfile,
    bundle: true,
    platform: 'node',
    mainFields: ['module', 'main'],
    format: 'esm',
    logLevel: 'error',
    banner: {
      js: "import { createRequire as __createRequire } from 'node:module';\nconst require = __createRequire(import.meta.url);",
    },
  });
}
