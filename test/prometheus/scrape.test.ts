import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { METRIC_PREFIX, METRICS } from '../../lib/status/metrics.ts';
import { createNode, eventually, type NodeLab, type RunningAgent } from '../e2e/support.ts';
import type { Fetch, Fetched } from '../lab/fetcher.ts';
import { startHelper } from '../lab/helper.ts';
import { succeed } from '../lab/run.ts';
import { substituted, targets } from './dashboard.ts';
import { type Prometheus, startPrometheus } from './prometheus.ts';
import { hurriedRules, stateRules } from './support.ts';

const ADDRESS = '127.0.0.1:9614';
const INSIDE = 'nonMasqueradeCIDRs: [10.1.0.0/16]\n';

/** What may have no series on a node without trouble. */
const TROUBLE: ReadonlySet<string> = new Set([
  'sync_retries_total',
  'config_errors',
  'pending_config_seconds',
]);

const EVALUATION_MS = 1000;
const POD = { namespace: 'kube-system', pod: 'ip-masq-agent-0', node: 'node-0' };

// They mostly wait, each with a node of its own.
describe('Prometheus', { concurrency: true }, () => {
  it('scrapes every metric of the agent and no other, and no alert fires on a healthy node', async () => {
    await using node = await createNode();
    for (const args of ['link set lo up', 'address add 10.9.0.1/32 dev lo'])
      await succeed(node.box.run('ip', args.split(' ')));
    await node.volume({
      'ip-masq-x': `${INSIDE}masqueradeFromCIDRs: [10.244.0.0/16]\nmasqueradeAddresses: [{destination: 0.0.0.0/0, address: 10.9.0.0/24}]\n`,
    });
    const agent = await start(
      node,
      '--backend=nftables',
      '--invalid-packets=drop',
      `--state-dir=${node.dir}`,
    );
    await using prometheus = await watch(node, agent);
    // The agent counts flows and ports a moment after it begins to serve.
    await eventually(
      async () => (await prometheus.query(`${METRIC_PREFIX}port_usage_ratio`)).length > 0,
      () => 'a look at conntrack',
    );
    const samples = await prometheus.query(`{__name__=~"${METRIC_PREFIX}.+"}`);
    const names = new Set(samples.map(({ metric: { __name__: name = '' } }) => tableName(name)));
    const known = Object.keys(METRICS);
    const missing = known.filter((name) => !names.has(name) && !TROUBLE.has(name));
    assert.deepEqual(missing, []);
    assert.deepEqual(
      [...names].filter((name) => !known.includes(name)),
      [],
    );
    // A query that Prometheus refuses is an error.
    for (const { expr } of targets) await prometheus.query(substituted(expr));
    for (const { metric } of samples) assert.partialDeepStrictEqual(metric, { job: 'ip-masq-agent', ...POD });
    const end = performance.now() + 3 * EVALUATION_MS;
    for (; performance.now() < end; await delay(200)) assert.deepEqual(await prometheus.firing(), []);
    await stop(agent);
  });

  it('takes what the agent exposes for well formed', async () => {
    await using node = await createNode();
    await node.volume({ 'ip-masq-x': INSIDE });
    const agent = await start(node);
    await using fetcher = await startHelper<Fetch, Fetched>(
      node.box,
      new URL('../lab/fetcher.ts', import.meta.url),
    );
    const { status, body } = await fetcher.ask({ url: `http://${ADDRESS}/metrics` });
    assert.equal(status, 200);
    const { stdout, stderr } = await node.box.run('promtool', ['check', 'metrics'], { input: body });
    const complaints = (stdout + stderr).split('\n').filter((line) => line !== '');
    assert.deepEqual(complaints, []);
    await stop(agent);
  });
});

/** The name in the table of metrics: histograms expose three. */
function tableName(name: string): string {
  return name.slice(METRIC_PREFIX.length).replace(/_(bucket|count|sum)$/, '');
}

async function start(node: NodeLab, ...flags: readonly string[]): Promise<RunningAgent> {
  const agent = node.start(`--metrics-bind-address=${ADDRESS}`, '--resync-interval=1s', ...flags);
  await agent.logged(/http:\/\/127\.0\.0\.1:9614/);
  return agent;
}

async function stop(agent: RunningAgent): Promise<void> {
  agent.kill('SIGTERM');
  assert.deepEqual(await agent.ended, { code: 0, signal: null });
}

/** Waits until the agent has been scraped, and is known to the rules too. */
async function watch(node: NodeLab, agent: RunningAgent): Promise<Prometheus> {
  await using stack = new AsyncDisposableStack();
  const prometheus = stack.use(
    await startPrometheus(node.box, {
      scrape: [ADDRESS],
      rules: [hurriedRules(), stateRules()],
    }),
  );
  let trouble: readonly string[] = [];
  await eventually(
    async () => {
      const scraped = (await prometheus.query('up == 1')).length === 1;
      // In the first seconds the agent is missing: Prometheus gathers its targets.
      const firing = (await prometheus.firing()).filter(({ name }) => name === 'IpMasqAgentMissing');
      trouble = [
        ...(scraped ? [] : await prometheus.troubles()),
        ...firing.map((alert) => JSON.stringify(alert)),
      ];
      return scraped && firing.length === 0;
    },
    () => `a scrape of the agent: ${trouble.join('; ')}; it has logged ${agent.log()}`,
  );
  stack.move();
  return prometheus;
}
