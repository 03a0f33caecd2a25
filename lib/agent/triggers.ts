import { addAbortListener } from 'node:events';
import { existsSync, type FSWatcher, statSync, watch } from 'node:fs';
import { basename, join } from 'node:path';
import { isConfigFileName } from '../config/config-file.ts';
import { DATA_LINK } from '../config/read.ts';
import type { Netlink } from '../dataplane/netlink.ts';
import type { Logger } from '../log/log.ts';
import { Notices } from '../log/notices.ts';
import type { Events, TableChange, WatchedTable } from '../netlink/watch.ts';
import { errorCode, errorMessage } from '../text/error.ts';
import { keepWatching } from './keep-watching.ts';
import { KernelEvents } from './kernel-events.ts';

/**
 * Why a sync happens. `kernel`: another program may have changed the agent's rules, because events of nf_tables say so or
 * were lost, the watch has just begun, or the last sync did not end in sync; the sync shows whether there is drift.
 * `addresses`: the node's addresses have changed.
 */
export type SyncReason = 'start' | 'change' | 'resync' | 'signal' | 'kernel' | 'addresses';

/** Whether a sync for this reason reads the config files. The other reasons concern the node alone. */
export function needsConfig(reason: SyncReason): boolean {
  return reason !== 'kernel' && reason !== 'addresses';
}

export interface Trigger {
  readonly reason: SyncReason;
  /** When the event came, in milliseconds of performance.now(). */
  readonly since: number;
  /** The programs that may have changed the agent's rules, as the kernel names them. */
  readonly by?: readonly string[] | undefined;
}

export function startTrigger(): Trigger {
  return { reason: 'start', since: performance.now() };
}

/** How long no file of a plain directory may change before all are read: there can be very many events, of one change each. */
const QUIET_MS = 100;

/**
 * The events after which the agent syncs: the start, each change of the config files, of nf_tables and of the node's
 * addresses, each signal, and each resync. All events during a sync make one trigger.
 */
export class Triggers implements AsyncIterable<Trigger> {
  /** Milliseconds from a reading of the config files until the next one, if there is no other event. */
  interval: number;
  readonly kernel = new KernelEvents();
  readonly #dir: string;
  readonly #signal: AbortSignal;
  #watcher: FSWatcher | undefined;
  /** What tells the watched directory from another one of its name. */
  #watched: string | undefined;
  readonly #log: Logger;
  readonly #notices: Notices;
  #pending: Trigger | undefined;
  #resume: (() => void) | undefined;

  /** @param signal ends the iteration */
  constructor(dir: string, interval: number, log: Logger, signal: AbortSignal) {
    // Otherwise an event of the directory itself has no name, or the name of any directory.
    this.#dir = dir.replace(/(?<=.)(?:\/+\.?)+$/, '');
    this.interval = interval;
    this.#log = log;
    this.#notices = new Notices(log);
    this.#signal = signal;
  }

  /** Adds a trigger, unless one that does as much is already pending: a reading of the config files includes a reading of the kernel. */
  add(reason: Exclude<SyncReason, 'kernel'>): void {
    if (this.#pending === undefined || (!needsConfig(this.#pending.reason) && needsConfig(reason)))
      this.#pending = { reason, since: performance.now() };
    this.#resume?.();
  }

  /** Takes changes of nf_tables, which may be a reason to sync. */
  addChanges(changes: Events<TableChange>): void {
    this.kernel.add(changes);
    this.#resume?.();
  }

  /** Watches for changes of these tables. Ends with the signal, or if netlink does not work here. */
  watchKernel(
    netlink: Pick<Netlink, 'watch' | 'noteFailure' | 'isUnavailableForGood'>,
    tables: readonly WatchedTable[],
  ): Promise<void> {
    const signal = this.#signal;
    return keepWatching({
      open: () => netlink.watch(tables, (changes) => this.addChanges(changes)),
      // Before the watch began, something may have changed.
      onStart: () => this.addChanges({ items: [], lost: true }),
      onFailure: (error) => {
        netlink.noteFailure(error);
        return !netlink.isUnavailableForGood;
      },
      interval: () => this.interval,
      signal,
    });
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Trigger, void> {
    this.#pending = startTrigger();
    let readAt = performance.now();
    while (!this.#signal.aborted) {
      const now = performance.now();
      // A program that changes the rules all the time must not put off the reading of the config files.
      const trigger = this.#pending ?? this.#due(now, readAt + this.interval);
      if (typeof trigger === 'number') {
        await this.#sleep(trigger - now);
        continue;
      }
      this.#pending = undefined;
      // The watch starts before the reading, so that no change is missed between the two.
      if (needsConfig(trigger.reason)) this.#watch();
      const { by, since } = this.kernel.takeChanges();
      if (needsConfig(trigger.reason)) readAt = now;
      yield { ...trigger, by, ...(trigger.reason === 'kernel' && { since }) };
    }
  }

  /** The trigger that time brings, or when it will. */
  #due(now: number, resyncAt: number): Trigger | number {
    const syncAt = this.kernel.syncDueAt ?? Number.POSITIVE_INFINITY;
    if (now >= resyncAt) return { reason: 'resync', since: now };
    return now >= syncAt ? { reason: 'kernel', since: now } : Math.min(syncAt, resyncAt);
  }

  async #sleep(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    using _ = addAbortListener(this.#signal, () => resolve());
    const timer = setTimeout(resolve, ms);
    this.#resume = resolve;
    await promise;
    clearTimeout(timer);
  }

  /**
   * Watches the directory itself, because kubelet replaces the files at each swap. In a projected volume only the swap
   * of `..data` is an event. If there can be no watch, it is lost, or another directory has the name now, the next reading
   * tries again.
   */
  #watch(): void {
    let quiet: NodeJS.Timeout | undefined;
    try {
      const { dev, ino, birthtimeNs } = statSync(this.#dir, { bigint: true });
      // A file system may give a new directory the number of one that is gone.
      const found = `${dev} ${ino} ${birthtimeNs}`;
      if (found === this.#watched) return;
      if (this.#watched !== undefined)
        this.#log.info(
          'the config directory is another one now, and no event told of it; the agent watches the new one',
        );
      this.#watcher?.close();
      const watcher = watch(this.#dir, { signal: this.#signal })
        .on('change', (_, name) => {
          const isItself = name === null || name === basename(this.#dir);
          // The directory itself was moved or removed, or a file has its name.
          if (isItself) watcher.close();
          const isFile = () => isConfigFileName(String(name)) && !existsSync(join(this.#dir, DATA_LINK));
          if (isItself || name === DATA_LINK) this.add('change');
          else if (isFile()) {
            clearTimeout(quiet);
            quiet = setTimeout(() => this.add('change'), QUIET_MS);
          }
        })
        .on('close', () => {
          clearTimeout(quiet);
          if (this.#watcher === watcher) this.#watched = undefined;
        })
        .on('error', (error) => {
          watcher.close();
          this.#warn(error);
        });
      [this.#watcher, this.#watched] = [watcher, found];
      this.#notices.updateWarnings([], { atEnd: 'watching the config directory again' });
    } catch (error) {
      this.#warn(error);
    }
  }

  #warn(error: unknown): void {
    const isLimit = ['ENOSPC', 'EMFILE'].includes(errorCode(error) ?? '');
    const remedy = isLimit ? '; raise fs.inotify.max_user_watches or max_user_instances' : '';
    this.#notices.updateWarnings([
      `cannot watch the config directory, changes wait for the resync: ${errorMessage(error)}${remedy}`,
    ]);
  }
}
