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

/** The shortest pause between two looks: the changes of a burst lead to one. */
const PAUSE_MS = 50;

/** The share of a core that looks may take, however many changes other programs make, up to a pause of so long. */
const MOST_LOAD = 1 / 40;
const LONGEST_PAUSE_MS = 2_000;

/** A row ends if nothing happens for this time, and for twice the last pause. */
const CALM_MS = 10_000;

/**
 * Looks at the agent's rules as soon as any program changes nf_tables, and wakes the agent if another program has changed
 * them, or if it has not read back its own change yet. If another program changes them again and again, each repair
 * comes later than the last one, up to the interval of the resync. Ends with the signal, or if netlink does not work
 * here.
 */
export async function watchDrift(options: DriftOptions): Promise<void> {
  const { netlink, wakes, signal } = options;
  for (;;) {
    try {
      using watch = netlink.watch();
      await follow(watch, options);
    } catch (error) {
      if (!signal.aborted) netlink.fail(error);
    }
    if (signal.aborted || netlink.isOver) return;
    await delay(wakes.interval, undefined, { signal }).catch(() => {});
  }
}

async function follow(
  watch: Watch,
  { dataplane, netlink, families, wakes, repairs, signal }: DriftOptions,
): Promise<void> {
  const end = () => watch[Symbol.dispose]();
  signal.addEventListener('abort', end);
  const own = ownProcesses(dataplane);
  const by = new Set<string>();
  const checks = new Streak();
  /** Returns whether it told all: otherwise there may be no other event that leads to a look. */
  const look = async (): Promise<boolean> => {
    await delay(repairs.rest, undefined, { signal });
    const began = performance.now();
    const found = await Promise.all(families.map((family) => dataplane.compare?.(family)));
    const took = performance.now() - began;
    const others = [...by].filter((process) => !own.includes(process));
    const isUnproven = found.includes('unproven');
    if (found.includes('changed')) wakes.add('drift', [...by]);
    // The agent's own change is among the events; another program may have used the same tool.
    else if (isUnproven) wakes.add('check', others.length > 0 ? others : [...by]);
    if (found.every((one) => one === 'same')) checks.length = 0;
    else checks.add(wakes.interval);
    const isKnown = !found.includes('unknown');
    if (isKnown) by.clear();
    const pause = Math.min(Math.max(PAUSE_MS, took / MOST_LOAD), LONGEST_PAUSE_MS);
    await delay(Math.max(pause, isUnproven && checks.length > 1 ? checks.rest : 0), undefined, { signal });
    return isKnown && !isUnproven;
  };
  const events = watch[Symbol.asyncIterator]();
  const nextEvent = () => {
    const event = events.next();
    // It may fail during a look; whoever waits for it learns that.
    event.catch(() => {});
    return event;
  };
  try {
    // The first look finds what has changed before the watch began.
    for (let next = nextEvent(); !netlink.isOver; ) {
      const event = (await look()) ? await next : await within(checks.rest, next);
      if (event === undefined) continue;
      if (event.done) return;
      for (const { process } of event.value.generations)
        if (process !== OWN_THREAD && by.size < MOST_NAMES) by.add(process);
      next = nextEvent();
    }
  } finally {
    signal.removeEventListener('abort', end);
  }
}

/** The value of the promise; undefined if that takes more milliseconds. */
async function within<Value>(ms: number, promise: Promise<Value>): Promise<Value | undefined> {
  const late = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => late.resolve(undefined), ms);
  return await Promise.race([promise, late.promise]).finally(() => clearTimeout(timer));
}

/** The name of the threads in which Node.js, and so the agent, sends changes over netlink. */
const OWN_THREAD = 'libuv-worker';

/** Many programs may act before a look can tell whether one of them has changed the agent's rules. */
const MOST_NAMES = 8;

/** The kernel tells so many characters of the name of a process. */
const NAME_LENGTH = 15;

/** The processes that the agent starts to write its rules, as the kernel names them. Others may use the same tools. */
function ownProcesses({ iptables }: Pick<Dataplane, 'iptables'>): readonly string[] {
  const tools = iptables && ['iptables', 'ip6tables'].map((tool) => `${tool}${iptables.suffix}-restore`);
  return (tools ?? ['nft']).map((tool) => tool.slice(0, NAME_LENGTH));
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
