/** What many entries cost in the nftables dataplane: time, and memory of the agent and of nft. */
import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { openNftables } from '../../lib/dataplane/nftables/nftables.ts';
import { boxHost } from '../kernel/support.ts';
import { createBox } from '../lab/box.ts';
import { temporaryDirectory } from '../lab/volume.ts';
import { policyWith } from './connections.ts';
import type { Row } from './stats.ts';

const BINARY = fileURLToPath(new URL('../../bin/ip-masq-agent', import.meta.url));
const RUNS = 5;

/** Rows for each number of entries. */
export async function scale(counts: readonly number[]): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const count of counts) rows.push(...(await times(count)), ...(await memory(count)));
  return rows;
}

async function times(count: number): Promise<readonly Row[]> {
  const [first, change, idle]: number[][] = [[], [], []];
  for (let run = 0; run < RUNS; run += 1) {
    await using box = await createBox();
    const options = { chain: 'IP-MASQ-AGENT', randomFully: true, toPorts: [] };
    const dataplane = await openNftables(options, boxHost(box).host);
    const sync = async (entries: number, recall: boolean): Promise<number> => {
      const policy = policyWith(entries);
      const start = performance.now();
      const observed = (recall ? dataplane.recall('IPv4') : undefined) ?? (await dataplane.observe('IPv4'));
      const plan = observed.plan(policy);
      if (plan !== undefined) await dataplane.apply(plan);
      return performance.now() - start;
    };
    first?.push(await sync(count, false));
    change?.push(await sync(count + 1, true));
    idle?.push(await sync(count + 1, false));
  }
  const name = (what: string) => `nftables, ${count.toLocaleString('en')} entries: ${what}`;
  return [
    { name: name('first apply'), unit: 'ms', samples: first ?? [] },
    { name: name('one more entry'), unit: 'ms', samples: change ?? [] },
    { name: name('idle resync'), unit: 'ms', samples: idle ?? [] },
  ];
}

const POLL_MS = 2;

/** Runs the agent once on files, and watches how large it and its children become. */
async function memory(count: number): Promise<readonly Row[]> {
  await using box = await createBox();
  await using dir = await temporaryDirectory();
  const perSource = 25_000;
  const cidrs = policyWith(count)
    .entries.slice(1)
    .map(({ prefix }) => `  - ${prefix.text}\n`);
  for (let at = 0; at < count; at += perSource) {
    const text = `cidrLimit: ${perSource}\nnonMasqueradeCIDRs:\n${cidrs.slice(at, at + perSource).join('')}`;
    await writeFile(`${dir.path}/ip-masq-${at}`, text);
  }
  const peaks = { agent: 0, nft: 0 };
  const timer = setInterval(() => {
    for (const { command, peak } of processes(dir.path)) peaks[command] = Math.max(peaks[command], peak);
  }, POLL_MS);
  const flags = ['--once', '--backend=nftables', `--config-dir=${dir.path}`, '--log-format=text'];
  const { code, stderr } = await box.run(BINARY, flags, { timeoutMs: 120_000 });
  clearInterval(timer);
  if (code !== 0) throw new Error(`the agent ended with ${code}: ${stderr.slice(-1000)}`);
  const name = (what: string) => `nftables, ${count.toLocaleString('en')} entries: peak memory of ${what}`;
  return [
    { name: name('the agent'), unit: 'MiB', samples: [peaks.agent / 1024] },
    { name: name('nft'), unit: 'MiB', samples: [peaks.nft / 1024] },
  ];
}

interface Seen {
  readonly command: 'agent' | 'nft';
  /** KiB. */
  readonly peak: number;
}

/** The agent of that config directory, and nft, as far as they run: their largest resident size so far (proc(5)). */
function processes(configDir: string): readonly Seen[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid): readonly Seen[] => {
      try {
        const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
        const isAgent = line.includes(configDir) && line.startsWith(process.execPath);
        const isNft = /^nft\0(?:-f\0|list\0table\0)/.test(line);
        const peak = Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
        return isAgent ? [{ command: 'agent', peak }] : isNft ? [{ command: 'nft', peak }] : [];
      } catch {
        return []; // it has ended in the meantime
      }
    });
}
