import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { METRIC_PREFIX } from '../../lib/status/metrics.ts';
import { createNode, eventually, type NodeLab } from '../e2e/support.ts';
import { succeed } from '../lab/run.ts';
import { substituted, targets } from './dashboard.ts';
import { type Prometheus, type Sample, startPrometheus } from './prometheus.ts';
import { stateRules } from './support.ts';

const AGENT = '127.0.0.1:9614';

describe('the dashboard', () => {
  it('has an answer to queries about connections, of a real agent with nftables', async () => {
    await using node = await createNode();
    await node.volume(configFiles(0));
    const agent = node.start(`--metrics-bind-address=${AGENT}`, '--enable-ipv6', '--backend=nftables');
    await agent.logged(/http:\/\/127\.0\.0\.1:9614/);
    await using prometheus = await startPrometheus(node.box, { scrape: [AGENT] });
    const queries = QUERIES.filter((query) => NEEDS_NFTABLES.test(query));
    assert.equal(queries.length, 1);
    await answered(prometheus, queries, () => delay(SETTLED_MS));
    agent.kill('SIGTERM');
    assert.equal((await agent.ended).code, 0, agent.log());
  });

  it('has an answer to every other query, of a real agent through a real Prometheus', async () => {
    await using node = await createNode();
    await connect(node);
    const volume = await node.volume(configFiles(0));
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
      rules: [stateRules(['east', 'west'], 1)],
    });

    const isTraffic = (expr: string) => /masqueraded_connections_total/.test(expr);
    const queries = QUERIES.filter((query) => !NEEDS_NFTABLES.test(query) && !NEEDS_OTHERS.test(query));
    let round = 0;
    await answered(
      prometheus,
      queries.filter((query) => !isTraffic(query)),
      async () => {
        round += 1;
        await flush(node);
        await delay(SETTLED_MS);
        await withLock(node, () => volume.swap(configFiles(round)));
        await delay(SETTLED_MS);
        if (round % 2 === 0) return;
        await volume.swap({ 'ip-masq-cloud': 'masqLinkLocal: maybe\n' });
        await delay(SETTLED_MS);
      },
    );
    await volume.swap(configFiles(round));
    // The agent reads the kernel's counts each 15 seconds at most.
    await answered(prometheus, queries.filter(isTraffic), () => send(node));

    const healthy = QUERIES.filter((query) => NEEDS_OTHERS.test(query));
    assert.equal(healthy.length, 1);
    for (const query of healthy)
      assert.deepEqual(
        (await prometheus.query(query)).map(({ metric, value }) => [metric['node'], value]),
        [['none', 0]],
      );

    const numbers = async (panel: string, cluster?: string) => {
      const asked = targets.filter((target) => target.panel === panel);
      const answers = await Promise.all(
        asked.map(({ expr }) => prometheus.query(substituted(expr, cluster))),
      );
      return answers.flat().map(({ value }) => value);
    };
    // The answers above may be older than the last change of the config files.
    await eventually(
      async () => `${await numbers('Ready', 'east')}` === '1',
      () => 'an agent with a valid config to be ready',
    );
    for (const [panel, [one, both = one]] of Object.entries(NOW)) {
      assert.deepEqual(await numbers(panel, 'east'), one, `${panel} of one cluster`);
      assert.deepEqual(await numbers(panel), both, `${panel} of both`);
    }
    assert.deepEqual(
      await prometheus.query(`count by (cluster, node) (${METRIC_PREFIX}build_info)`),
      ['east', 'west'].map((cluster) => ({ metric: { cluster, node: 'node-0' }, value: 1 })),
      'what the variables list',
    );
    await volume.swap({ 'ip-masq-cloud': 'masqLinkLocal: maybe\n' });
    await eventually(
      async () => `${await numbers('Ready', 'east')}` === '0',
      () => 'an agent that keeps an older config to be not ready',
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
const NEEDS_NFTABLES = /ip_masq_agent_invalid_packets_total/;

/** No other program decides about packets above: test/packets/against-policy.test.ts has some that do. */
const NEEDS_OTHERS = /since="after"\}\) > 0 or on/;

/** What single numbers are at the end of the story, of one cluster, and of both if that differs. */
const NOW: Readonly<Record<string, readonly [readonly number[], (readonly number[])?]>> = {
  Agents: [[1], [2]],
  Ready: [[1]],
  Gone: [[0]],
  Restarts: [[0]],
  Versions: [[1]],
  'Configs in use': [[1]],
  'On the config of their DaemonSet': [[1]],
  'Config files': [[2, 2]],
  Conflicts: [[1]],
  'Without netlink': [[0]],
  'Nodes where others decide': [[0]],
};

/** Two config files, one of which says otherwise about link-local than the other: a warning. */
function configFiles(number: number): Readonly<Record<string, string>> {
  return {
    'ip-masq-cloud':
      'nonMasqueradeCIDRs: [10.9.0.0/24, "fd09::/64"]\nmasqueradeFromCIDRs: ["fd00::/8"]\nmasqueradeAddresses: [{destination: 0.0.0.0/0, address: 10.9.0.0/24}]\nmasqLinkLocal: true\n',
    'ip-masq-operator': `nonMasqueradeCIDRs: [172.${16 + (number % 16)}.0.0/16]\nmasqueradeFromCIDRs: ["2001:db8::/32"]\nmasqLinkLocal: false\n`,
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
