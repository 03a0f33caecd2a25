import type { Metrics } from '../telemetry/metrics.ts';

/** What happened, as a change of metrics. */
export type Record = (metrics: Metrics) => void;

/** Keeps what happens until there are metrics to record it in: these are loaded only after the first sync. */
export class Recorder {
  #metrics: Metrics | undefined;
  #waiting: Record[] | undefined = [];

  record(record: Record): void {
    if (this.#metrics === undefined) this.#waiting?.push(record);
    else record(this.#metrics);
  }

  /** From now on everything goes to these metrics, what has happened so far first. */
  attach(metrics: Metrics): void {
    for (const record of this.#waiting ?? []) record(metrics);
    this.#waiting = undefined;
    this.#metrics = metrics;
  }

  /** Nobody will ask. */
  discard(): void {
    this.#waiting = undefined;
  }
}
