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
  readonly dataplane: Pick<Dataplane, 'compare'>;
  readonly netlink: Pick<Netlink, 'watch' | 'fail' | 'isOver'>;
  readonly families: readonly Family[];
  readonly wakes: Pick<Wakes, 'add' | 'interval'>;
  readonly log: Pick<Logger, 'warn'>;
  readonly signal: AbortSignal;
}

/** The shortest pause between two comparisons: the changes of a burst lead to one. */
const PAUSE_MS = 50;

/** The share of a core that comparisons may take, however many changes other programs make. */
const MOST_LOAD = 1 / 40;

/** The name of the threads in which Node.js, and so the agent, sends changes over netlink. */
const OWN_THREAD = 'libuv-worker';

/** After so many repairs in a row the log says that this is a fight. */
const FIGHT = 5;

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
  { dataplane, families, wakes, log, signal }: DriftOptions,
): Promise<void> {
  const end = () => watch[Symbol.dispose]();
  signal.addEventListener('abort', end);
  const by = new Set<string>();
  const repairs = new Streak();
  const checks = new Streak();
  /** Returns whether all is told. */
  const look = async () => {
    const began = performance.now();
    const found = await Promise.all(families.map((family) => dataplane.compare?.(family)));
    let pause = Math.max(PAUSE_MS, (performance.now() - began) / MOST_LOAD);
    const calm = 2 * wakes.interval;
    if (found.includes('changed')) {
      wakes.add('drift', [...by]);
      pause = Math.max(pause, repairs.add(calm));
      if (repairs.length === FIGHT) log.warn(fight([...by], wakes.interval));
    } else if (found.includes('unproven')) {
      wakes.add('check');
      pause = Math.max(pause, checks.add(calm));
    } else checks.length = 0;
    if (!found.includes('unknown')) by.clear();
    await delay(Math.min(pause, wakes.interval), undefined, { signal });
    return !found.includes('unproven');
  };
  try {
    // What has changed before the watch began.
    while (!(await look()));
    for await (const { generations } of watch) {
      for (const { process } of generations) if (process !== OWN_THREAD) by.add(process);
      // A foreign change may have come between the agent's own one and this look, and then there is no other event.
      while (!(await look()));
    }
  } finally {
    signal.removeEventListener('abort', end);
  }
}

function fight(by: readonly string[], interval: number): string {
  return `${programs(by)} changes the agent's rules again and again; each repair now comes later than the last one, up to ${formatDuration(interval)}; find the program, or the second agent, that writes them`;
}

/** Events of one kind in a row. */
class Streak {
  length = 0;
  #last = 0;

  /**
   * Adds an event.
   *
   * @param calm milliseconds after which a new row begins
   * @returns the pause after it, in milliseconds, which doubles with each
   */
  add(calm: number): number {
    const now = performance.now();
    this.length = now - this.#last > calm ? 1 : this.length + 1;
    this.#last = now;
    return PAUSE_MS * 2 ** (this.length - 1);
  }
}
