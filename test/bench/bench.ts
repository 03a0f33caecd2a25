/**
 * Measures the agent in private namespaces and prints a table; `make bench` runs it. Judges nothing.
 * Usage: node test/bench/bench.ts [starts] [reaction] [idle] [scale] [connections]
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Agent } from '../../lib/agent/agent.ts';
import { Recorder } from '../../lib/agent/recorder.ts';
import { Status } from '../../lib/agent/status.ts';
import { openIptables } from '../../lib/dataplane/iptables/iptables.ts';
import type { IptablesMode } from '../../lib/dataplane/iptables/options.ts';
import { createLogger } from '../../lib/telemetry/log.ts';
import { boxHost } from '../kernel/support.ts';
import { type Box, createBox } from '../lab/box.ts';
import { monitorRules } from '../lab/monitor.ts';
import { type Files, ProjectedVolume, temporaryDirectory } from '../lab/volume.ts';
import { connections } from './connections.ts';
import { scale } from './scale.ts';
import { type Row, table } from './stats.ts';

const BINARY = fileURLToPath(new URL('../../bin/ip-masq-agent', import.meta.url));
const OUT = new URL('out/', import.meta.url);
const NODE_START = 'bare Node start';

/** Three owners with 20 ranges each; the number makes each generation's rules its own. */
function sources(number: number): Files {
  const owner = (octet: number) =>
    Array.from({ length: 20 }, (_, index) => `  - ${octet}.${index}.${number}.0/24\n`);
  const text = (octet: number) => `nonMasqueradeCIDRs:\n${owner(octet).join('')}`;
  return { 'ip-masq-a': text(10), 'ip-masq-b': text(11), 'ip-masq-c': text(12) };
}

async function timed(times: number, action: (run: number) => Promise<unknown>): Promise<readonly number[]> {
  const samples: number[] = [];
  for (let run = 0; run < times; run += 1) {
    const start = performance.now();
    await action(run);
    samples.push(performance.now() - start);
  }
  return samples;
}

async function succeed(box: Box, file: string, args: readonly string[]): Promise<void> {
  const { code, stderr } = await box.run(file, args);
  if (code !== 0) throw new Error(`${file} ended with ${code}: ${stderr}`);
}

/** From exec to exit, the cost of entering the namespace included in both rows. */
async function starts(): Promise<readonly Row[]> {
  await using box = await createBox();
  await using dir = await temporaryDirectory();
  const once = [`--config-dir=${dir.path}/config`, '--once', '--enable-ipv6'];
  const volume = await ProjectedVolume.create(`${dir.path}/config`, sources(0));
  const bare = await timed(30, () => succeed(box, process.execPath, ['-e', '0']));
  const same = await timed(30, () => succeed(box, BINARY, once));
  const changed: number[] = [];
  for (let run = 1; run <= 30; run += 1) {
    await volume.swap(sources(run));
    changed.push(...(await timed(1, () => succeed(box, BINARY, once))));
  }
  return [
    { name: NODE_START, unit: 'ms', samples: bare },
    { name: '--once, nothing to change', unit: 'ms', samples: same, baseline: NODE_START },
    { name: '--once, rules of 3 sources change', unit: 'ms', samples: changed, baseline: NODE_START },
  ];
}

/** From the rename of ..data until the kernel announces the new rules. Legacy rules are not announced. */
async function reaction(): Promise<Row> {
  await using box = await createBox();
  await using dir = await temporaryDirectory();
  const volume = await ProjectedVolume.create(`${dir.path}/config`, sources(0));
  const monitor = monitorRules(box);
  const agent = box.spawn(BINARY, [`--config-dir=${dir.path}/config`, '--resync-interval=1h'], {
    stdio: 'ignore',
  });
  await monitor.announced('10.0.0.0/24');
  const samples: number[] = [];
  for (let run = 1; run <= 50; run += 1) {
    const renamed = await volume.swap(sources(run));
    samples.push((await monitor.announced(`10.0.${run}.0/24`)) - renamed);
    await delay(20);
  }
  agent.kill();
  return { name: '..data renamed → rules in the kernel, nft mode', unit: 'ms', samples };
}

/** A resync that finds nothing to do, with the commands it runs. */
async function idle(mode: IptablesMode): Promise<readonly Row[]> {
  await using box = await createBox();
  await using dir = await temporaryDirectory();
  await ProjectedVolume.create(`${dir.path}/config`, sources(0));
  const { host, commands } = boxHost(box);
  const open = () => openIptables({ mode, chain: 'IP-MASQ-AGENT', randomFully: true, toPorts: [] }, host);
  const config = { enableIPv6: true, cidrLimit: 64, strict: false, noMasqAllReservedRanges: false };
  const options = { configDir: `${dir.path}/config`, config, resyncInterval: 60_000, syncTimeout: 30_000 };
  const log = createLogger('json', 0);
  log.level = 'silent';
  const agent = new Agent(options, { open, places: async () => [] }, log, new Status(new Recorder()));
  const sync = () => agent.sync({ reason: 'resync', since: performance.now() }, new AbortController().signal);
  await sync();
  const counts: { processes: number; writes: number }[] = [];
  const samples = await timed(50, async () => {
    const start = commands.length;
    await sync();
    const run = commands.slice(start);
    counts.push({
      processes: run.length / 2,
      writes: run.filter((command) => command.includes('-restore')).length,
    });
  });
  return [
    { name: `idle resync, ${mode} mode, both families`, unit: 'ms', samples },
    { name: '  processes per family', unit: '', samples: counts.map(({ processes }) => processes) },
    { name: '  kernel writes', unit: '', samples: counts.map(({ writes }) => writes) },
  ];
}

const parts: Readonly<Record<string, () => Promise<readonly Row[]>>> = {
  starts,
  reaction: async () => [await reaction()],
  idle: async () => [...(await idle('nft')), ...(await idle('legacy'))],
  scale: () => scale([10_000, 100_000]),
  connections,
};

const wanted = process.argv.slice(2);
const rows: Row[] = [];
for (const [name, part] of Object.entries(parts)) {
  if (wanted.length === 0 || wanted.includes(name)) rows.push(...(await part()));
}
console.log(table(rows));
await mkdir(OUT, { recursive: true });
await writeFile(new URL('bench.json', OUT), `${JSON.stringify({ node: process.version, rows }, null, 2)}\n`);
