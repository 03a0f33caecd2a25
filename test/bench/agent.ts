import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Box } from '../lab/box.ts';
import type { Fetch, Fetched } from '../lab/fetcher.ts';
import { type Generations, watchGenerations } from '../lab/generations.ts';
import { startHelper } from '../lab/helper.ts';
import { type Lines, readLines } from '../lab/lines.ts';
import { ProjectedVolume, temporaryDirectory } from '../lab/volume.ts';
import type { BenchNode } from './node.ts';
import { untilQuiet } from './proc.ts';
import { type Families, sources } from './sources.ts';

/** The build that is measured; another one than this checkout's to compare the two. */
export const BINARY =
  process.env['BENCH_BINARY'] ?? fileURLToPath(new URL('../../bin/ip-masq-agent', import.meta.url));

/** The built agent at work on a node, its server on. It syncs when it is told to, and at changes. */
export interface RunningAgent extends AsyncDisposable {
  readonly pid: number;
  /**
   * Swaps the volume for the sources of another number, and waits until the kernel holds them.
   *
   * @returns milliseconds from the rename of `..data` until then: as nf_tables tells, or, in legacy mode, where nobody
   * tells, until the agent says so.
   */
  swap(number: number): Promise<number>;
  /**
   * Asks for so many resyncs, each when the one before has come to its end, and returns how many there were.
   *
   * @param hooks called when nothing is under way before the first and after the last
   */
  resync(times: number, hooks?: Partial<Hooks>): Promise<number>;
  /** The metrics. */
  scrape(): Promise<string>;
  /** Waits until it has done what comes after a change: the look for rules of others. */
  settle(): Promise<void>;
  /** The transactions of nf_tables on the node, those of others too. */
  readonly generations: Generations;
}

interface Hooks {
  begin(): void;
  end(): void;
}

export interface AgentOptions {
  readonly families: Families;
  /** A directory of programs that stand before all others. */
  readonly path?: string;
}

/** A resync is over when nothing happens for so many milliseconds; the look for rules of others may come a bit later. */
const QUIET_MS = { resync: 30, look: 200 } as const;

/** Starts the agent on sources number 0, and waits until it has nothing more to do. */
export async function startAgent(node: BenchNode, { families, path }: AgentOptions): Promise<RunningAgent> {
  await using stack = new AsyncDisposableStack();
  const { path: dir } = stack.use(await temporaryDirectory());
  const volume = await ProjectedVolume.create(`${dir}/config`, sources(0, families));
  const { scrape } = stack.use(await startScraper(node.box));
  const generations = stack.use(await watchGenerations(node.box));
  const { pid, log } = stack.use(launch(node.box, agentFlags(volume.dir, families), path));
  const settle = () => untilQuiet(pid, QUIET_MS.look);
  const changes = families === 'both' ? 2 : 1;
  const done =
    node.kind.mode === 'nft' ? () => lastGeneration(generations, changes) : () => lastChange(log, changes);
  // The server comes after the first sync.
  await log.next((text) => text.includes('/metrics'));
  await settle();
  const owned = stack.move();
  return {
    pid,
    generations,
    scrape,
    settle,
    async swap(number) {
      generations.drain();
      log.drain();
      const renamed = await volume.swap(sources(number, families));
      return (await done()) - renamed;
    },
    async resync(times, { begin = () => {}, end = () => {} } = {}) {
      const before = syncs(await scrape());
      await settle();
      begin();
      for (let time = 0; time < times; time += 1) {
        process.kill(pid, 'SIGHUP');
        await untilQuiet(pid, QUIET_MS.resync);
      }
      end();
      return syncs(await scrape()) - before;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

interface Launched extends AsyncDisposable {
  readonly pid: number;
  readonly log: Lines;
}

function launch(box: Box, flags: readonly string[], path: string | undefined): Launched {
  const env = path === undefined ? {} : { PATH: `${path}:${box.env['PATH']}` };
  const child = box.spawn(BINARY, flags, { stdio: ['ignore', 'ignore', 'pipe'], env });
  const { pid, stderr } = child;
  if (stderr === null || pid === undefined) throw new Error('a program with a pipe was asked for');
  return {
    pid,
    log: readLines(stderr, 'the agent to say what it has changed'),
    [Symbol.asyncDispose]: async () => {
      if (child.kill('SIGKILL')) await once(child, 'exit');
    },
  };
}

interface Scraper extends AsyncDisposable {
  scrape(): Promise<string>;
}

async function startScraper(box: Box): Promise<Scraper> {
  const script = new URL('../lab/fetcher.ts', import.meta.url);
  const fetcher = await startHelper<Fetch, Fetched>(box, script);
  return {
    async scrape() {
      const { status, body } = await fetcher.ask({ url: 'http://127.0.0.1:9614/metrics' });
      if (status !== 200) throw new Error(`a scrape is answered by ${status ?? body}`);
      return body;
    },
    [Symbol.asyncDispose]: () => fetcher[Symbol.asyncDispose](),
  };
}

/** Flags of an agent that syncs by itself at changes only. */
export function agentFlags(configDir: string, families: Families): readonly string[] {
  return [
    `--config-dir=${configDir}`,
    '--resync-interval=1h',
    `--enable-ipv6=${families === 'both'}`,
    '--termination-log=/dev/null',
  ];
}

/** When the agent has said of the last of so many families that it holds what it is to hold. */
async function lastChange(log: Lines, families: number): Promise<number> {
  let at = Number.NaN;
  for (let family = 0; family < families; family += 1)
    ({ at } = await log.next((text) => text.includes('"took_ms"')));
  return at;
}

async function lastGeneration(generations: Generations, families: number): Promise<number> {
  let at = Number.NaN;
  for (let family = 0; family < families; family += 1) ({ at } = await generations.next());
  return at;
}

/** The value of a metric, all its labels together. */
export function metric(text: string, name: string, labels = ''): number {
  const lines = text.matchAll(new RegExp(`^${name}(\\{[^}]*\\})? (\\S+)$`, 'gm'));
  return Array.from(lines)
    .filter(([, own = '']) => own.includes(labels))
    .reduce((sum, [, , value]) => sum + Number(value), 0);
}

function syncs(metrics: string): number {
  return metric(metrics, 'ip_masq_agent_syncs_total', 'family="IPv4"');
}
