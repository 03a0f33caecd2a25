import { setTimeout as delay } from 'node:timers/promises';
import { formatDuration } from '../config/duration.ts';
import type { Dataplane } from '../dataplane/dataplane.ts';
import type { Netlink, Watch } from '../dataplane/netlink.ts';
import type { Logger } from '../log/log.ts';
import type { Family } from '../policy/policy.ts';
import { programs } from './programs.ts';
import type { Wakes } from './wakes.ts';

/** What to watch, and what then happens. */
export interface DriftOptions {
  readonly dataplane: Pick<Dataplane, 'compare' | 'iptables'>;
  readonly netlink: Pick<Netlink, 'watch' | 'fail' | 'isOver'>;
  readonly families: readonly Family[];
  readonly wakes: Pick<Wakes, 'add' | 'interval'>;
  /** The repairs that this watch has led to. */
  readonly repairs: Pick<Streak, 'rest'>;
  readonly signal: AbortSignal;
}

/** The shortest pause between two comparisons: the changes of a burst lead to one. */
const PAUSE_MS = 50;

/** The share of a core that comparisons may take, however many changes other programs make. */
const MOST_LOAD = 1 / 40;

/** The name of the threads in which Node.js, and so the agent, sends changes over netlink. */
const OWN_THREAD = 'libuv-worker';

/** A row ends if nothing happens for this time, and for twice the last pause. */
const CALM_MS = 10_000;

/**
 * Looks at the agent's rules as soon as any program changes nf_tables, and wakes the agent if they are not what it has
 * left. If another program changes them again and again, each repair comes later than the last one, up to the interval of
 * the resync. Ends with the signal, or if netlink does not work here.
 */
export async function watchDrift(options: DriftOptions): Promise<void> {
  const { netlink, wakes, signal } = options;
  while (!signal.aborted && !netlink.isOver) {
    try {
      using watch = netlink.watch();
      await follow(watch, options);
    } catch (error) {
      if (signal.aborted) return;
      netlink.fail(error);
    }
    await delay(wakes.interval, undefined, { signal }).catch(() => {});
  }
}

async function follow(
  watch: Watch,
  { dataplane, families, wakes, repairs, signal }: DriftOptions,
): Promise<void> {
  const end = () => watch[Symbol.dispose]();
  signal.addEventListener('abort', end);
  /** The number of transactions of each program. */
  const by = new Map<string, number>();
  const checks = new Streak();
  const look = async () => {
    const began = performance.now();
    const found = await Promise.all(families.map((family) => dataplane.compare?.(family)));
    let pause = Math.max(PAUSE_MS, (performance.now() - began) / MOST_LOAD);
    if (found.includes('changed')) wakes.add('drift', [...by.keys()]);
    else if (found.includes('unproven')) {
      wakes.add('check', others(by, dataplane, families.length));
      checks.add(wakes.interval);
      pause = Math.max(pause, checks.rest);
    } else checks.length = 0;
    if (!found.includes('unknown')) by.clear();
    await delay(pause, undefined, { signal });
  };
  try {
    // What has changed before the watch began.
    await look();
    for await (const { generations } of watch) {
      for (const { process } of generations)
        if (process !== OWN_THREAD) by.set(process, (by.get(process) ?? 0) + 1);
      await delay(repairs.rest, undefined, { signal });
      await look();
    }
  } finally {
    signal.removeEventListener('abort', end);
  }
}

/** The kernel tells so many characters of the name of a process. */
const NAME_LENGTH = 15;

/** The programs without the tool with which the agent has just written each family, unless there are no others. */
function others(
  by: ReadonlyMap<string, number>,
  { iptables }: Pick<Dataplane, 'iptables'>,
  writes: number,
): readonly string[] {
  const tools = iptables && ['iptables', 'ip6tables'].map((tool) => `${tool}${iptables.suffix}-restore`);
  const own = (tools ?? ['nft']).map((tool) => tool.slice(0, NAME_LENGTH));
  const rest = [...by].filter(([program, times]) => times > writes || !own.includes(program));
  return (rest.length > 0 ? rest : [...by]).map(([program]) => program);
}

/** Events of one kind in a row, and the pause after each, which doubles. */
export class Streak {
  length = 0;
  #pause = 0;
  #last = 0;

  /**
   * Adds an event.
   *
   * @param most the longest pause, in milliseconds
   */
  add(most: number): void {
    const now = performance.now();
    if (now - this.#last > Math.max(CALM_MS, 2 * this.#pause)) this.length = 0;
    this.length += 1;
    this.#pause = this.length === 1 ? PAUSE_MS : Math.min(2 * this.#pause, most);
    this.#last = now;
  }

  /** Milliseconds until the end of the pause. */
  get rest(): number {
    return Math.max(0, this.#last + this.#pause - performance.now());
  }
}

/** After so many repairs in a row the log says that this is a fight. */
const FIGHT = 6;

/** Repairs of drift in a row. If they become a fight, the log says so, once. */
export class Repairs extends Streak {
  /**
   * Takes note of a repair.
   *
   * @param by the programs that may have made the drift
   * @param interval the interval of the resync, in milliseconds, which is the longest pause
   */
  note(by: readonly string[], interval: number, log: Pick<Logger, 'warn'>): void {
    this.add(interval);
    if (this.length === FIGHT)
      log.warn(
        `${programs(by)} changes the agent's rules again and again; each repair now comes later than the last one, up to ${formatDuration(interval)}; find the program, or the second agent, that writes them`,
      );
  }
}
