import { setTimeout as delay } from 'node:timers/promises';
import type { Wakes } from '../agent/wakes.ts';
import type { Logger } from '../log/log.ts';
import { NetlinkError } from '../netlink/error.ts';
import { AddressWatch } from '../netlink/watch.ts';
import { ownAddressList } from '../node/own-addresses.ts';
import { isFor, nodeAddresses, type Policy } from '../policy/policy.ts';
import { watchAddresses } from './address-watch.ts';

/** Wakes the agent when the node's addresses change, from the first policy on that asks for any. */
export class AddressChanges {
  #policies: readonly Policy[] = [];
  #isWatching = false;
  readonly #wakes: Wakes;
  readonly #log: Logger;
  readonly #signal: AbortSignal;

  constructor(wakes: Wakes, log: Logger, signal: AbortSignal) {
    this.#wakes = wakes;
    this.#log = log;
    this.#signal = signal;
  }

  /** Takes the policies whose rules the kernel has now. */
  follow(policies: readonly Policy[]): void {
    const areNew = policies !== this.#policies;
    this.#policies = policies;
    if (!areNew || policies.every((policy) => nodeAddresses(policy).length === 0)) return;
    // While they were applied, addresses may have changed.
    if (this.#isWatching && !this.#areCurrent()) this.#wakes.add('addresses');
    if (this.#isWatching) return;
    this.#isWatching = true;
    void this.#watch();
  }

  /** Watches until the process ends. If that fails, it tries again as often as the agent syncs by itself. */
  async #watch(): Promise<void> {
    for (let hasWarned = false; !this.#signal.aborted; hasWarned = true) {
      try {
        await watchAddresses({
          watch: new AddressWatch(),
          isCurrent: () => this.#areCurrent(),
          wakes: this.#wakes,
          signal: this.#signal,
        });
      } catch (error) {
        if (!(error instanceof NetlinkError)) throw error;
        const text = `cannot watch the node's addresses, changes wait for the resync: ${error.message}`;
        if (!hasWarned) this.#log.warn(text);
      }
      await delay(this.#wakes.interval, undefined, { signal: this.#signal }).catch(() => {});
    }
  }

  #areCurrent(): boolean {
    return isFor(ownAddressList(), this.#policies);
  }
}
