import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { METRIC_PREFIX, METRICS, Metrics } from '../../lib/status/metrics.ts';
import { createNode, eventually, type NodeLab } from '../e2e/support.ts';
import { succeed } from '../lab/run.ts';
import { dashboard, type GridPos, metricsOf, panels, substituted, targets } from './dashboard.ts';
import { type Prometheus, type Sample, startPrometheus } from './prometheus.ts';

const AGENT = '127.0.0.1:9614';

describe('the dashboard', () => {
  it('asks for its data source at the import, and uses no other', () => {
    assert.deepEqual(
      dashboard.__inputs.map(({ name, pluginId }) => [name, pluginId]),
      [['DS_PROMETHEUS', 'prometheus']],
    );
    const [source, ...others] = dashboard.templating.list;
    assert.deepEqual([source?.name, source?.current.value], ['datasource', `\${DS_PROMETHEUS}`]);
    for (const { datasource } of [...others.filter(({ type }) => type === 'query'), ...panels, ...targets])
      assert.deepEqual(datasource, { type: 'prometheus', uid: `\${datasource}` });
  });

  it('uses only panels that come with Grafana, and requires those it uses', () => {
    const required = dashboard.__requires.flatMap(({ type, id }) => (type === 'panel' ? [id] : []));
    const core = ['bargauge', 'heatmap', 'stat', 'table', 'timeseries'];
    assert.deepEqual([...new Set(panels.map(({ type }) => type))].toSorted(), core);
    assert.deepEqual(required, core);
    assert.ok(dashboard.schemaVersion >= 38);
  });

  it('gives every panel an id and a title of its own', () => {
    const rows = dashboard.panels.filter(({ type }) => type === 'row');
    for (const key of ['id', 'title'] as const) {
      const values = [...rows, ...panels].map((panel) => panel[key]);
      assert.equal(new Set(values).size, values.length, values.join());
    }
  });

  it('lays no panel over another, nor over the edge', () => {
    const groups = [dashboard.panels, ...dashboard.panels.map((row) => row.panels ?? [])];
    for (const group of groups)
      for (const [index, { gridPos, title }] of group.entries()) {
        assert.ok(gridPos.x >= 0 && gridPos.x + gridPos.w <= 24, title);
        const other = group.slice(index + 1).find((panel) => overlap(gridPos, panel.gridPos));
        assert.equal(other, undefined, `${title} and ${other?.title}`);
      }
  });

  it('shows the fleet and the rollout at once; the other rows are collapsed', () => {
    const rows = dashboard.panels.filter(({ type }) => type === 'row');
    assert.deepEqual(
      rows.filter(({ collapsed }) => collapsed !== true).map(({ title }) => title),
      ['Fleet', 'Config rollout'],
    );
    assert.ok(rows.every((row) => row.collapsed !== true || (row.panels?.length ?? 0) > 0));
  });

  it('describes every panel in one sentence, and gives it a unit', () => {
    for (const panel of panels) {
      assert.match(panel.description ?? '', /^[A-Z][^.]*(?:\.\w[^.]*)*\.$/, panel.title);
      const unit = panel.options?.yAxis?.unit ?? panel.fieldConfig?.defaults.unit;
      assert.match(unit ?? '', /^(?:s|ops|pps|Bps|bytes|percentunit|short)$/, panel.title);
    }
  });

  it('asks for metrics that there are, always of the chosen clusters and nodes', async () => {
    const known = await exposed();
    for (const { expr, panel } of targets) {
      assert.deepEqual(
        metricsOf(expr).filter((name) => !known.has(name)),
        [],
        `${panel}: ${expr}`,
      );
      assert.match(expr, /\{cluster=~"\$cluster",node=~"\$node"\}/, panel);
    }
  });

  it('shows every metric of the agent', () => {
    const shown = new Set(targets.flatMap(({ expr }) => metricsOf(expr)));
    const missing = Object.entries(METRICS).filter(
      ([name, { type }]) => !shown.has(METRIC_PREFIX + name + (type === 'histogram' ? '_bucket' : '')),
    );
    assert.deepEqual(missing, []);
  });

  it('has an answer to queries about connections, of a real agent in nft mode', async () => {
    await using node = await createNode();
    await node.volume(sources(0));
    const agent = node.start(`--metrics-bind-address=${AGENT}`, '--enable-ipv6', '--iptables-mode=nft');
    await agent.logged(/http:\/\/127\.0\.0\.1:9614/);
    await using prometheus = await startPrometheus(node.box, { scrape: [AGENT] });
    const queries = QUERIES.filter((query) => NEEDS_NETLINK.test(query));
    assert.equal(queries.length, 2);
    await answered(prometheus, queries, () => delay(SETTLED_MS));
    agent.kill('SIGTERM');
    assert.equal((await agent.ended).code, 0, agent.log());
  });

  it('has an answer to every other query, of a real agent through a real Prometheus', async () => {
    await using node = await createNode();
    await connect(node);
    await succeed(node.box.run('iptables-legacy', ['-t', 'nat', ...FOREIGN]));
    const volume = await node.volume(sources(0));
    const agent = node.start(
      `--metrics-bind-address=${AGENT}`,
      '--enable-ipv6',
      '--iptables-mode=legacy',
      '--resync-interval=1s',
      '--on-invalid-config=keep',
    );
    await agent.logged(/http:\/\/127\.0\.0\.1:9614/);
    await using prometheus = await startPrometheus(node.box, {
      scrape: [AGENT],
      clusters: ['east', 'west'],
    });

    const isTraffic = (expr: string) => /masqueraded_(?:packets|bytes)_total/.test(expr);
    const queries = QUERIES.filter((query) => !NEEDS_NETLINK.test(query));
    let round = 0;
    await answered(
      prometheus,
      queries.filter((query) => !isTraffic(query)),
      async () => {
        round += 1;
        await flush(node);
        await delay(SETTLED_MS);
        await withLock(node, () => volume.swap(sources(round)));
        await delay(SETTLED_MS);
        if (round % 2 === 0) return;
        await volume.swap({ 'ip-masq-cloud': 'masqLinkLocal: maybe\n' });
        await delay(SETTLED_MS);
      },
    );
    await volume.swap(sources(round));
    // The agent reads the kernel's counts each 15 seconds at most.
    await answered(prometheus, queries.filter(isTraffic), () => send(node));

    const numbers = async (panel: string, cluster?: string) => {
      const asked = targets.filter((target) => target.panel === panel);
      const answers = await Promise.all(
        asked.map(({ expr }) => prometheus.query(substituted(expr, cluster))),
      );
      return answers.flat().map(({ value }) => value);
    };
    for (const [panel, [one, both = one]] of Object.entries(NOW)) {
      assert.deepEqual(await numbers(panel, 'east'), one, `${panel} of one cluster`);
      assert.deepEqual(await numbers(panel), both, `${panel} of both`);
    }
    assert.deepEqual(
      await prometheus.query(`count by (cluster, node) (${METRIC_PREFIX}build_info)`),
      ['east', 'west'].map((cluster) => ({ metric: { cluster, node: 'node-0' }, value: 1 })),
      'what the variables list',
    );
    agent.kill('SIGTERM');
    assert.equal((await agent.ended).code, 0, agent.log());
    await eventually(
      async () => `${await numbers('Agents')} ${await numbers('Gone')}` === '0 2',
      () => 'the dashboard to miss the agent',
    );
  });
});

const QUERIES = targets.map(({ expr }) => substituted(expr));

/** The agent above has legacy mode, because only that has a lock. */
const NEEDS_NETLINK = /ip_masq_agent_(?:stale_flows|port_usage_ratio)/;

/** What single numbers are at the end of the story, of one cluster, and of both if that differs. */
const NOW: Readonly<Record<string, readonly [readonly number[], (readonly number[])?]>> = {
  Agents: [[1], [2]],
  Ready: [[1]],
  Gone: [[0]],
  Restarts: [[0]],
  Versions: [[1]],
  'Configs in use': [[1]],
  'On the most common config': [[1]],
  Sources: [[2, 2]],
  Conflicts: [[1]],
  'Without netlink': [[0]],
  'Nodes with foreign rules': [[1], [2]],
};

const FOREIGN = ['-A', 'POSTROUTING', '-s', '172.17.0.0/16', '!', '-o', 'docker0', '-j', 'MASQUERADE'];

/** Two sources, one of which says otherwise about link-local than the other: a warning. */
function sources(generation: number): Readonly<Record<string, string>> {
  return {
    'ip-masq-cloud':
      'nonMasqueradeCIDRs: [10.9.0.0/24, "fd09::/64"]\nmasqueradeFromCIDRs: ["fd00::/8"]\nmasqueradeAddresses: [{destination: 0.0.0.0/0, address: 10.9.0.0/24}]\nmasqLinkLocal: true\n',
    'ip-masq-operator': `nonMasqueradeCIDRs: [172.${16 + (generation % 16)}.0.0/16]\nmasqueradeFromCIDRs: ["2001:db8::/32"]\nmasqLinkLocal: false\n`,
  };
}

/** Gives the node a link over which packets leave, to nobody: who is behind it is not asked for. */
async function connect({ box }: NodeLab): Promise<void> {
  const ip = (...args: string[]) => succeed(box.run('ip', args));
  await ip('link', 'add', 'out', 'type', 'veth', 'peer', 'name', 'nobody');
  await ip('link', 'set', 'nobody', 'up');
  await ip('link', 'set', 'out', 'arp', 'off', 'up');
  await ip('address', 'add', '10.9.0.1/24', 'dev', 'out');
  await ip('address', 'add', 'fd09::1/64', 'dev', 'out', 'nodad');
  await ip('route', 'add', 'default', 'dev', 'out');
  await ip('-6', 'route', 'add', 'default', 'dev', 'out');
}

/** Sends first packets of new connections: to what is left alone, and to what is not. */
async function send({ box }: NodeLab): Promise<void> {
  const addresses = ['10.9.0.2', '198.51.100.1', 'fd09::2', '2001:db8::1'];
  const lines = addresses.map((address) => `echo > /dev/udp/${address}/9`);
  await succeed(box.run('bash', ['-c', lines.join('; ')]));
  await delay(200);
}

/** Does to our rules what others should not. */
async function flush({ box }: NodeLab): Promise<void> {
  for (const tool of ['iptables-legacy', 'ip6tables-legacy'])
    await succeed(box.run(tool, ['-w', '-t', 'nat', '-F', 'IP-MASQ-AGENT']));
}

/** Resync and scrape, of a second each, have seen what happened before. */
const SETTLED_MS = 1500;

/** Lets something happen while the xtables lock is busy, for longer than iptables itself waits: a second. */
async function withLock({ box }: NodeLab, happen: () => Promise<unknown>): Promise<void> {
  const held = box.run('flock', [box.env['XTABLES_LOCKFILE'] ?? '', 'sleep', '2']);
  await delay(100);
  await happen();
  await succeed(held);
}

const PATIENCE_MS = 60_000;

/** Lets things happen, again and again, until each query has had an answer. */
async function answered(
  prometheus: Prometheus,
  queries: readonly string[],
  happen: () => Promise<void>,
): Promise<void> {
  const open = new Set(queries);
  const deadline = performance.now() + PATIENCE_MS;
  while (open.size > 0) {
    if (performance.now() > deadline) assert.fail(`no answer to:\n${[...open].join('\n')}`);
    await happen();
    for (const query of open) if ((await prometheus.query(query)).some(isAnswer)) open.delete(query);
  }
}

/** The label "none" stands for events that have not happened: here they do. */
function isAnswer({ metric, value }: Sample): boolean {
  return !Number.isNaN(value) && !Object.values(metric).includes('none');
}

/** The names of series that the agent exposes, or will where something has happened. */
async function exposed(): Promise<ReadonlySet<string>> {
  const { body } = await new Metrics().text(false);
  const types = [...body.matchAll(/^# TYPE (\w+) (\w+)$/gm)];
  return new Set(
    types.flatMap(([, name = '', type]) =>
      type === 'histogram' ? ['bucket', 'sum', 'count'].map((suffix) => `${name}_${suffix}`) : [name],
    ),
  );
}

function overlap(a: GridPos, b: GridPos): boolean {
  return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}
