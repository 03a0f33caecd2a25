import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { State } from '../agent/state.ts';
import { printable } from '../text/escape.ts';
import { type LabelValues, METRIC_PREFIX, METRICS } from './metrics.ts';
import type { About } from './status-json.ts';

export const METRICS_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;

type Table = typeof METRICS;
type Named<Type extends Table[keyof Table]['type']> = {
  [Name in keyof Table]: Table[Name]['type'] extends Type ? Name : never;
}[keyof Table];
type Labels<Name extends keyof Table> = LabelValues<Table[Name]['labels'][number]>;

const KINDS = { counter: Counter, gauge: Gauge, histogram: Histogram } as const;

/** From 1 ms to 30 s, which is the default of --sync-timeout. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** The metrics for Prometheus: those of the table, and the start of the process. */
export class Metrics {
  readonly #registry = new Registry();

  constructor() {
    for (const [suffix, { type, labels, help }] of Object.entries(METRICS)) {
      const name = METRIC_PREFIX + suffix;
      const buckets = type === 'histogram' && { buckets: BUCKETS };
      new KINDS[type]({ name, help, labelNames: [...labels], registers: [this.#registry], ...buckets });
      if (type === 'gauge') this.clear(suffix as Named<'gauge'>);
    }
    const started = { name: 'process_start_time_seconds', help: 'Time of the start of the agent.' };
    new Gauge({ ...started, registers: [this.#registry] }).set(performance.timeOrigin / 1000);
  }

  /** Sets all gauges as the state says them now. What it does not say has no value. */
  setGauges(state: State, about: About): void {
    for (const [name, definition] of Object.entries(METRICS)) {
      if (definition.type !== 'gauge') continue;
      const gauge = this.#named<Gauge>(name);
      this.clear(name as Named<'gauge'>);
      for (const { labels, value } of definition.read(state, about))
        if (value !== undefined) gauge.set(shown(labels), Number(value));
    }
  }

  add<Name extends Named<'counter'>>(name: Name, labels: Labels<Name>, value = 1): void {
    this.#named<Counter>(name).inc(shown(labels), value);
  }

  /** Removes all series. To reset a gauge without labels gives it the value 0, which nobody has measured. */
  clear<Name extends Named<'counter' | 'gauge'>>(name: Name): void {
    const metric = this.#named<Counter | Gauge>(name);
    if (METRICS[name].labels.length === 0) metric.remove();
    else metric.reset();
  }

  /** Adds a duration, in seconds, to a histogram. */
  observe<Name extends Named<'histogram'>>(name: Name, labels: Labels<Name>, seconds: number): void {
    this.#named<Histogram>(name).observe(shown(labels), seconds);
  }

  #named<Kind extends Counter | Gauge | Histogram>(name: string): Kind {
    return this.#registry.getSingleMetric(METRIC_PREFIX + name) as Kind;
  }

  /** The metrics in the text format of Prometheus. */
  text(): Promise<string> {
    return this.#registry.metrics();
  }
}

/** The labels with their values printable: names of files reach the terminal of whoever runs curl. */
function shown(labels: Readonly<Record<string, string>>): Record<string, string> {
  const texts: Record<string, string> = {};
  for (const [name, value] of Object.entries(labels)) texts[name] = printable(value);
  return texts;
}
