import type { Metrics } from './metrics.ts';

/** What happened, as a change of metrics. */
type Event = (metrics: Metrics) => void;

/** Keeps what happens until there are metrics to record it in: these are loaded only after the first sync. */
export class Recorder {
  #metrics: Metrics | undefined;
  #waiting: Event[] | undefined = [];

  /** Records it now, or once there are metrics. */
  record(event: Event): void {
    if (this.#metrics === undefined) this.#waiting?.push(event);
    else event(this.#metrics);
  }

  /** From now on everything goes to these metrics, what has happened so far first. */
  attach(metrics: Metrics): void {
    for (const event of this.#waiting ?? []) event(metrics);
    this.#waiting = undefined;
    this.#metrics = metrics;
  }

  /** Nobody will ask. */
  discard(): void {
    this.#waiting = undefined;
  }
}
