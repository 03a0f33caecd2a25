import { once } from 'node:events';
import type { Fetch, Fetched } from '../lab/fetcher.ts';
import { watchGenerations } from '../lab/generations.ts';
import { startHelper } from '../lab/helper.ts';
import { readLines } from '../lab/lines.ts';
import { ProjectedVolume, temporaryDirectory } from '../lab/volume.ts';
import { configFiles } from './config-files.ts';
import type { BenchNode } from './node.ts';
import { type CpuTime, cpuDuring, untilQuiet } from './proc.ts';

/** The build that is measured. BENCH_BINARY names another one, to compare the two. */
export const BINARY = process.env['BENCH_BINARY'] ?? (await import('../lab/binary.ts')).BINARY;

/** The built agent at work on a node, with both families, its server on. It syncs at changes and signals only. */
interface RunningAgent extends AsyncDisposable {
  readonly pid: number;
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
  /** Waits until the agent has done what follows a change: it looks for foreign rules. */
  settle(): Promise<void>;
}

/** A resync has ended if nothing happens for so many milliseconds; the look for foreign rules may start a bit later. */
const QUIET_MS = { resync: 30, look: 200 } as const;

/** Starts the agent on config files number 0, and waits until it has nothing more to do. */
export async function startAgent({ box, kind }: BenchNode): Promise<RunningAgent> {
  await using stack = new AsyncDisposableStack();
  const { path: dir } = stack.use(await temporaryDirectory());
  const volume = await ProjectedVolume.create(`${dir}/config`, configFiles(0));
  const fetcher = stack.use(
    await startHelper<Fetch, Fetched>(box, new URL('../lab/fetcher.ts', import.meta.url)),
  );
  // Nothing announces a change of iptables-legacy.
  const generations = kind.mode === 'nft' ? stack.use(await watchGenerations(box)) : undefined;
  const child = box.spawn(BINARY, [...agentFlags(volume.dir), '--backend=iptables'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const { pid, stderr } = child;
  if (stderr === null || pid === undefined) throw new Error('the agent does not start');
  stack.defer(async () => {
    if (child.kill('SIGKILL')) await once(child, 'exit');
  });
  const log = readLines(stderr, 'a line in the log of the agent');
  await log.next((text) => text.includes('/metrics'));
  const settle = () => untilQuiet(pid, QUIET_MS.look);
  const syncs = async () => {
    const { body = '' } = await fetcher.ask({ url: 'http://127.0.0.1:9614/metrics' });
    const lines = body.matchAll(/^ip_masq_agent_syncs_total(?:\{[^}]*\})? (\S+)$/gm);
    return Array.from(lines).reduce((sum, [, value]) => sum + Number(value), 0);
  };
  await settle();
  const owned = stack.move();
  return {
    pid,
    settle,
    async swap(number) {
      generations?.drain();
      log.drain();
      const renamed = await volume.swap(configFiles(number));
      let at = Number.NaN;
      for (let family = 0; family < 2; family += 1)
        ({ at } = await (generations?.next() ?? log.next((text) => text.includes('"took_ms"'))));
      return at - renamed;
    },
    async resync(times) {
      const before = await syncs();
      await settle();
      const { own, children } = await cpuDuring(pid, async () => {
        for (let time = 0; time < times; time += 1) {
          process.kill(pid, 'SIGHUP');
          await untilQuiet(pid, QUIET_MS.resync);
        }
      });
      const count = ((await syncs()) - before) / 2;
      return { own: own / count, children: children / count };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The flags of an agent that syncs by itself at changes only. */
export function agentFlags(configDir: string): readonly string[] {
  return [
    `--config-dir=${configDir}`,
    '--resync-interval=1h',
    '--enable-ipv6',
    '--termination-log=/dev/null',
  ];
}
