import { findLeftovers, leftoverPlaces } from '../agent/leftovers.ts';
import { describeRemoval, removeAll } from '../agent/remove.ts';
import type { Dataplane, Found, Installed } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Host } from '../dataplane/host.ts';
import { installedDataplanes } from '../dataplane/open.ts';
import type { DataplaneOptions } from '../dataplane/options.ts';
import type { Logger } from '../log/log.ts';
import type { Policy } from '../policy/policy.ts';

/** Milliseconds until a busy kernel fails an attempt. */
const ATTEMPT_MS = 1_000;

/**
 * Removes leftovers of an earlier run in another dataplane, mode or family: once in each of these places. If rules come
 * back there, another agent keeps a chain of the same name, and to remove them again would be a fight without an end.
 */
export class Leftovers {
  readonly #options: DataplaneOptions;
  readonly #host: Host;
  readonly #log: Logger;
  readonly #signal: AbortSignal;
  /** The places in which this process has removed leftovers. */
  readonly #removed = new Set<string>();
  #back: readonly Found[] = [];

  constructor(options: DataplaneOptions, host: Host, log: Logger, signal: AbortSignal) {
    this.#options = options;
    this.#host = host;
    this.#log = log;
    this.#signal = signal;
  }

  /** What has come back: rules of another agent. */
  get back(): readonly Found[] {
    return this.#back;
  }

  /**
   * Looks once. Called only after the rules of this run are in the kernel, so that the node is never without rules.
   *
   * @returns why it failed; undefined if nothing is left, or the signal has ended it
   */
  async look(dataplane: Dataplane, policies: readonly Policy[]): Promise<string | undefined> {
    const failures: string[] = [];
    try {
      const kept = policies.map(({ family }) => family);
      const installed = await installedDataplanes(this.#options, this.#host);
      const places = leftoverPlaces(installed, dataplane, kept);
      const known = this.#only(places, true);
      failures.push(...(await this.#remove(this.#only(places, false))));
      this.#back = await findLeftovers(known);
    } catch (error) {
      // The signal ends a pause between two attempts with an AbortError.
      if (this.#signal.aborted) return undefined;
      if (!(error instanceof DataplaneError)) throw error;
      failures.push(`${error.message}; ${error.remedy}`);
    }
    if (failures.length === 0) return undefined;
    return `cannot remove leftovers of an earlier run in another dataplane, mode or family: ${failures.join('; ')}`;
  }

  /** The places without those that this process has cleared: what is there now is another agent's. */
  withoutOthers(installed: readonly Installed[]): readonly Installed[] {
    return this.#only(installed, false);
  }

  /** Removes what is in these places; returns what failed. */
  async #remove(places: readonly Installed[]): Promise<readonly string[]> {
    const retry = { timeoutMs: ATTEMPT_MS, signal: this.#signal, onRetry: () => {} };
    const removals = await removeAll(places, retry);
    for (const removal of removals) {
      const { family, where, outcome, stays } = removal;
      if (outcome.kind !== 'removed') continue;
      this.#removed.add(`${family} ${where}`);
      this.#log.info({ family, rules: outcome.rules }, `left by an earlier run: ${describeRemoval(removal)}`);
      for (const text of stays) this.#log.warn({ family }, text);
    }
    return removals.filter(({ outcome }) => outcome.kind === 'failed').map(describeRemoval);
  }

  /** Those of the places in which this process has, or has not, removed leftovers. */
  #only(places: readonly Installed[], removed: boolean): readonly Installed[] {
    return places.map(({ dataplane, families }) => ({
      dataplane,
      families: families.filter((family) => this.#removed.has(`${family} ${dataplane.name}`) === removed),
    }));
  }
}
