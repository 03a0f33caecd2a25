import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Box } from '../lab/box.ts';
import type { Fetch, Fetched } from '../lab/fetcher.ts';
import { type Helper, startHelper } from '../lab/helper.ts';
import { temporaryDirectory } from '../lab/volume.ts';

export interface PrometheusOptions {
  /** What is scraped each second, `HOST:PORT`. The first gets the labels node=node-0 and pod=ip-masq-agent-0, and so on. */
  readonly scrape?: readonly string[];
  /** More scrape configs. */
  readonly jobs?: readonly object[];
  /** Texts of rule files. */
  readonly rules?: readonly string[];
}

interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Alert {
  readonly name: string;
  /** All but the name. */
  readonly labels: Readonly<Record<string, string>>;
}

/** A real Prometheus on the loopback link of a box. It scrapes, and evaluates rules, each second. */
export interface Prometheus extends AsyncDisposable {
  /** What the expression, an instant vector or a scalar, gives now. Rejects where it is no PromQL. */
  query(expr: string): Promise<readonly Sample[]>;
  /** The alerts that fire now; those that are pending are not among them. */
  firing(): Promise<readonly Alert[]>;
  /** Why a target is not up, as Prometheus says it. */
  troubles(): Promise<readonly string[]>;
}

const URL_IN_BOX = 'http://127.0.0.1:9090';
const PATIENCE_MS = 60_000;

/** Starts it, and waits until it answers queries; the first scrape may still be to come. */
export async function startPrometheus(
  box: Pick<Box, 'spawn'>,
  options: PrometheusOptions,
): Promise<Prometheus> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryDirectory());
  await writeConfig(path, options);
  const fetcher = stack.use(
    await startHelper<Fetch, Fetched>(box, new URL('../lab/fetcher.ts', import.meta.url)),
  );
  const args = [
    `--config.file=${path}/prometheus.json`,
    `--storage.tsdb.path=${path}/data`,
    `--web.listen-address=${new URL(URL_IN_BOX).host}`,
    '--log.level=warn',
  ];
  const child = box.spawn('prometheus', args, { stdio: ['ignore', 'ignore', 'pipe'] });
  await once(child, 'spawn');
  stack.defer(() => end(child));
  await untilReady(child, fetcher);
  const owned = stack.move();
  return {
    query: async (expr) => {
      const { data } = await get<QueryData>(fetcher, `/api/v1/query?query=${encodeURIComponent(expr)}`);
      const result = data.resultType === 'scalar' ? [{ metric: {}, value: data.result }] : data.result;
      return result.map(({ metric, value: [, value] }) => ({ metric, value: number(value) }));
    },
    firing: async () => {
      const { data } = await get<AlertsData>(fetcher, '/api/v1/alerts');
      const firing = data.alerts.filter(({ state }) => state === 'firing');
      return firing.map(({ labels: { alertname = '', ...labels } }) => ({ name: alertname, labels }));
    },
    troubles: async () => {
      const { data } = await get<TargetsData>(fetcher, '/api/v1/targets?state=active');
      return data.activeTargets.map(
        ({ scrapeUrl, health, lastError }) => `${scrapeUrl} is ${health}: ${lastError}`,
      );
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** JSON is YAML too. */
async function writeConfig(
  dir: string,
  { scrape = [], jobs = [], rules = [] }: PrometheusOptions,
): Promise<void> {
  const targets = scrape.map((target, index) => ({
    targets: [target],
    labels: { node: `node-${index}`, namespace: 'kube-system', pod: `ip-masq-agent-${index}` },
  }));
  const config = {
    global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
    rule_files: rules.map((_, index) => `rules-${index}.yaml`),
    scrape_configs: [
      ...(targets.length > 0 ? [{ job_name: 'ip-masq-agent', static_configs: targets }] : []),
      ...jobs,
    ],
  };
  await writeFile(join(dir, 'prometheus.json'), JSON.stringify(config));
  for (const [index, text] of rules.entries()) await writeFile(join(dir, `rules-${index}.yaml`), text);
  // In a box of a user without privileges that user writes here, and not this one.
  await mkdir(join(dir, 'data'));
  await chmod(join(dir, 'data'), 0o777);
}

async function untilReady(child: ChildProcess, fetcher: Helper<Fetch, Fetched>): Promise<void> {
  let log = '';
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
    log += chunk;
  });
  const deadline = performance.now() + PATIENCE_MS;
  while ((await fetcher.ask({ url: `${URL_IN_BOX}/-/ready` })).status !== 200) {
    const ended = child.exitCode !== null || child.signalCode !== null;
    if (ended || performance.now() > deadline)
      throw new Error(`Prometheus ${ended ? 'has ended' : 'does not get ready'}: ${log}`);
    await delay(20);
  }
}

/** The HTTP API of Prometheus, version 1. */
type QueryData =
  | { readonly resultType: 'scalar'; readonly result: Value }
  | {
      readonly resultType: 'vector';
      readonly result: readonly {
        readonly metric: Readonly<Record<string, string>>;
        readonly value: Value;
      }[];
    };
type Value = readonly [time: number, value: string];

interface AlertsData {
  readonly alerts: readonly { readonly state: string; readonly labels: Readonly<Record<string, string>> }[];
}

interface TargetsData {
  readonly activeTargets: readonly {
    readonly scrapeUrl: string;
    readonly health: string;
    readonly lastError: string;
  }[];
}

async function get<Data>(fetcher: Helper<Fetch, Fetched>, path: string): Promise<{ readonly data: Data }> {
  const { status, body } = await fetcher.ask({ url: URL_IN_BOX + path });
  if (status !== 200) throw new Error(`Prometheus answers ${status ?? 'nothing'} to ${path}: ${body}`);
  return JSON.parse(body);
}

function number(text: string): number {
  return Number(text.replace('Inf', 'Infinity'));
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}
