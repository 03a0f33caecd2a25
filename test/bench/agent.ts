import { once } from 'node:events';
import type { Fetch, Fetched } from '../lab/fetcher.ts';
import { watchGenerations } from '../lab/generations.ts';
import { startHelper } from '../lab/helper.ts';
import { readLines } from '../lab/lines.ts';
import { type Files, ProjectedVolume, temporaryDirectory } from '../lab/volume.ts';
import { configFiles, type Families, MANY_FLAGS } from './config-files.ts';
import type { BenchNode } from './node.ts';
import { type CpuTime, cpuDuring, untilQuiet } from './proc.ts';

/** The build that is measured. BENCH_BINARY names another one, to compare the two. */
export const BINARY = process.env['BENCH_BINARY'] ?? (await import('../lab/binary.ts')).BINARY;

/** The built agent at work on a node, its server on. It syncs at changes and signals only. */
export interface RunningAgent extends AsyncDisposable {
  readonly pid: number;
  /** Milliseconds from exec until the first sync is done and the server listens. */
  readonly started: number;
  /** Milliseconds from exec until it says that it is ready. */
  readonly ready: number;
  /**
   * Swaps the volume for the config files of another number, and waits until the kernel holds them.
   *
   * @returns milliseconds from the rename of `..data` until then
   */
  swap(number: number): Promise<number>;
  /**
   * Asks for so many resyncs, each after the one before has ended.
   *
   * @returns milliseconds of CPU for each resync
   */
  resync(times: number): Promise<CpuTime>;
  /** The metrics. */
  scrape(): Promise<string>;
  /** Waits until the agent has done what follows a change: it looks for foreign rules. */
  settle(): Promise<void>;
}

export interface AgentOptions {
  readonly families: Families;
  readonly backend?: 'iptables' | 'nftables';
  readonly flags?: readonly string[];
  /** Whether the end of a change is seen in the kernel; otherwise, in the log. */
  readonly isAnnounced?: boolean;
  /** A directory of programs that come before all others. */
  readonly path?: string;
  /** The config files of each number. */
  readonly files?: (number: number) => Files;
}

/** A resync has ended if nothing happens for so many milliseconds; the look for foreign rules may start a bit later. */
const QUIET_MS = { resync: 30, look: 200 } as const;

/** Starts the agent on config files number 0, and waits until it has nothing more to do. */
export async function startAgent(node: BenchNode, options: AgentOptions): Promise<RunningAgent> {
  const { families, backend = 'iptables', path, files = (number) => configFiles(number, families) } = options;
  const { box, kind } = node;
  const familyCount = families === 'both' ? 2 : 1;
  await using stack = new AsyncDisposableStack();
  const { path: dir } = stack.use(await temporaryDirectory());
  const volume = await ProjectedVolume.create(`${dir}/config`, files(0));
  const fetcher = stack.use(
    await startHelper<Fetch, Fetched>(box, new URL('../lab/fetcher.ts', import.meta.url)),
  );
  // Nothing announces a change of iptables-legacy. A change of the nftables dataplane announces each element: more
  // than the socket of an unprivileged listener holds.
  const { flags = [], isAnnounced = kind.mode === 'nft' && backend === 'iptables' } = options;
  const generations = isAnnounced ? stack.use(await watchGenerations(box)) : undefined;

  const get = (path: string) => fetcher.ask({ url: `http://127.0.0.1:9614${path}` });
  await get('/readyz'); // nobody answers; the first one loads
  const start = performance.now();
  const child = box.spawn(BINARY, [...agentFlags(volume.dir, families), `--backend=${backend}`, ...flags], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: path === undefined ? {} : { PATH: `${path}:${box.env['PATH']}` },
  });
  const { pid, stderr } = child;
  if (stderr === null || pid === undefined) throw new Error('the agent does not start');
  stack.defer(async () => {
    if (child.kill('SIGKILL')) await once(child, 'exit');
  });
  const log = readLines(stderr, 'a line in the log of the agent');
  const { at: listening } = await log.next((text) => text.includes('/metrics'));

  while ((await get('/readyz')).status !== 200);
  const ready = performance.now() - start;

  const change = () => generations?.next() ?? log.next((text) => text.includes('"took_ms"'));
  const settle = () => untilQuiet(pid, QUIET_MS.look);
  const scrape = async () => {
    const { status, body } = await get('/metrics');
    if (status !== 200) throw new Error(`a scrape is answered by ${status ?? body}`);
    return body;
  };
  await settle();
  const owned = stack.move();
  return {
    pid,
    started: listening - start,
    ready,
    scrape,
    settle,
    async swap(number) {
      generations?.drain();
      log.drain();
      const renamed = await volume.swap(files(number));
      let at = Number.NaN;
      for (let family = 0; family < familyCount; family += 1) ({ at } = await change());
      return at - renamed;
    },
    async resync(times) {
      const before = syncs(await scrape());
      await settle();
      const { own, children } = await cpuDuring(pid, async () => {
        for (let time = 0; time < times; time += 1) {
          process.kill(pid, 'SIGHUP');
          await untilQuiet(pid, QUIET_MS.resync);
        }
      });
      const count = (syncs(await scrape()) - before) / familyCount;
      return { own: own / count, children: children / count };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The flags of an agent that syncs by itself at changes only. */
export function agentFlags(configDir: string, families: Families): readonly string[] {
  return [
    `--config-dir=${configDir}`,
    '--resync-interval=1h',
    `--enable-ipv6=${families === 'both'}`,
    '--termination-log=/dev/null',
    ...MANY_FLAGS,
  ];
}

/** The value of a metric, summed over all labels. */
export function metric(text: string, name: string): number {
  const lines = text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'gm'));
  return Array.from(lines).reduce((sum, [, value]) => sum + Number(value), 0);
}

function syncs(metrics: string): number {
  return metric(metrics, 'ip_masq_agent_syncs_total');
}
