import { setTimeout as delay } from 'node:timers/promises';
import { keepWatching } from '../agent/keep-watching.ts';
import type { Wakes } from '../agent/wakes.ts';
import type { Logger } from '../log/log.ts';
import { Notices } from '../log/notices.ts';
import { NetlinkError } from '../netlink/error.ts';
import { AddressWatch } from '../netlink/watch.ts';
import { ownAddressList } from '../node/own-addresses.ts';
import { isFor, nodeAddresses, type Policy } from '../policy/policy.ts';

/** Changes of so many milliseconds lead to one look: each pod that starts changes links and addresses too. */
const PAUSE_MS = 100;

/** An address that comes and goes leads to rarer changes, until it stays for so long. */
const LONGEST_PAUSE_MS = 800;
const CALM_MS = 10_000;

/** Wakes the agent when the node's addresses change, from the first policy on that asks for any. */
export class AddressChanges {
  #policies: readonly Policy[] = [];
  #isWatching = false;
  #pause = PAUSE_MS;
  #changedAt = Number.NEGATIVE_INFINITY;
  readonly #wakes: Wakes;
  readonly #notices: Notices;
  readonly #signal: AbortSignal;

  constructor(wakes: Wakes, log: Logger, signal: AbortSignal) {
    this.#wakes = wakes;
    this.#notices = new Notices(log);
    this.#signal = signal;
  }

  /** Takes the policies whose rules the kernel has now. */
  follow(policies: readonly Policy[]): void {
    const areNew = policies !== this.#policies;
    this.#policies = policies;
    if (!areNew || policies.every((policy) => nodeAddresses(policy).length === 0)) return;
    // While they were applied, addresses may have changed.
    if (this.#isWatching) this.#check();
    else void this.#watch();
    this.#isWatching = true;
  }

  /** Whether the rules have the node's addresses; otherwise wakes the agent. */
  #check(): boolean {
    const isCurrent = isFor(ownAddressList(), this.#policies);
    if (!isCurrent) this.#wakes.add('addresses');
    return isCurrent;
  }

  #watch(): Promise<void> {
    return keepWatching({
      open: () => new AddressWatch(),
      onStart: () => this.#check(),
      onEvent: () => this.#onEvent(),
      onFailure: (error) => {
        if (!(error instanceof NetlinkError)) throw error;
        const text = `cannot watch the node's addresses, changes wait for the resync: ${error.message}`;
        this.#notices.warn([text]);
        return true;
      },
      interval: () => this.#wakes.interval,
      signal: this.#signal,
    });
  }

  async #onEvent(): Promise<void> {
    await delay(this.#pause, undefined, { signal: this.#signal });
    const now = performance.now();
    if (now - this.#changedAt > CALM_MS) this.#pause = PAUSE_MS;
    if (this.#check()) return;
    this.#pause = Math.min(2 * this.#pause, LONGEST_PAUSE_MS);
    this.#changedAt = now;
  }
}
