import type { Metrics } from './metrics.ts';

type Update = (metrics: Metrics) => void;

/** Records changes of metrics. It keeps them until metrics are attached, which are loaded only after the first sync. */
export class Recorder {
  #metrics: Metrics | undefined;
  #waiting: Update[] | undefined = [];

  record(update: Update): void {
    if (this.#metrics === undefined) this.#waiting?.push(update);
    else update(this.#metrics);
  }

  attach(metrics: Metrics): void {
    for (const update of this.#waiting ?? []) update(metrics);
    this.#waiting = undefined;
    this.#metrics = metrics;
  }

  /** Drops all kept changes, because there is no server for metrics. */
  discard(): void {
    this.#waiting = undefined;
  }
}
