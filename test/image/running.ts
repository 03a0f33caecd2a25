import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, it } from 'node:test';
import { eventually, jsonLines } from '../e2e/support.ts';
import type { Fetch, Fetched } from '../lab/fetcher.ts';
import { type Helper, startHelper } from '../lab/helper.ts';
import { createNetwork, type Network, NODE, POD } from '../lab/network.ts';
import { succeed } from '../lab/run.ts';
import type { AgentContainer } from './daemonset.ts';
import type { ImageLab } from './support.ts';

const BEFORE = { 'ip-masq-cloud': 'nonMasqueradeCIDRs: [10.0.0.0/8, "fd00:a::/32"]\n' };
const AFTER = { 'ip-masq-operator': 'nonMasqueradeCIDRs: [198.18.0.0/15, "fd00:b::/32"]\n' };

const natOf = (mode: 'nft' | 'legacy') =>
  ['iptables', 'ip6tables'].map((tool) => [`${tool}-${mode}`, '-t', 'nat', '-S']);

/** How each dataplane is asked for, and how its rules are seen. */
const DATAPLANES = {
  'iptables in nft mode': {
    args: ['--iptables-mode=nft'],
    hasNetlink: true,
    listings: natOf('nft'),
  },
  'iptables in legacy mode': {
    args: ['--iptables-mode=legacy'],
    hasNetlink: false,
    listings: natOf('legacy'),
  },
  nftables: {
    args: [],
    hasNetlink: true,
    listings: [
      ['nft', 'list', 'table', 'ip', 'ip-masq-agent'],
      ['nft', 'list', 'table', 'ip6', 'ip-masq-agent'],
    ],
  },
} as const;

/** What the container does, with the security context, the memory limit and the volumes of the manifest. */
export function running(get: () => ImageLab): void {
  let network: Network;
  let fetcher: Helper<Fetch, Fetched>;
  const stack = new AsyncDisposableStack();
  before(async () => {
    network = stack.use(await createNetwork(get().docker.node));
    const script = new URL('../lab/fetcher.ts', import.meta.url);
    fetcher = stack.use(await startHelper<Fetch, Fetched>(get().docker.node, script));
  });
  after(() => stack.disposeAsync());

  const metrics = async () => (await fetcher.ask({ url: 'http://127.0.0.1:9614/metrics' })).body;
  const status = async (path: string) => (await fetcher.ask({ url: `http://127.0.0.1:9614${path}` })).status;
  const ready = async (agent: AgentContainer) => {
    await eventually(
      async () => (await status('/readyz')) === 200,
      () => 'the agent to be ready',
    ).catch(async (error) => assert.fail(`${error.message}; its log is:\n${await agent.logs()}`));
  };
  const listing = async (commands: readonly (readonly string[])[]) => {
    const parts = await Promise.all(
      commands.map(([file = '', ...args]) => get().docker.node.run(file, args)),
    );
    return parts.map(({ stdout }) => stdout).join('');
  };
  /** What kubelet does to a pod that goes. Docker tells 137 if it had to kill. */
  const stop = async ({ id }: AgentContainer) => {
    await get().docker.must('stop', '--time', '10', id);
    const state = '{{.State.ExitCode}} {{.State.OOMKilled}}';
    return await get().docker.must('inspect', '--format', state, id);
  };

  for (const [name, { args, hasNetlink, listings }] of Object.entries(DATAPLANES)) {
    it(`keeps the rules of both families with ${name}, follows the files, and leaves the rules at its end`, async () => {
      const start = name === 'nftables' ? get().startNftables : get().start;
      await using agent = await start(BEFORE, '--enable-ipv6', '--vanished-grace=0', ...args);
      await ready(agent);
      const rules = await listing(listings);
      assert.match(rules, /10\.0\.0\.0\/8/);
      assert.match(rules, /fd00:a::\/32/);
      assert.equal(/^ip_masq_agent_netlink_active 1$/m.test(await metrics()), hasNetlink);
      const sources = await network.sourcesSeen(['10.1.2.3', 'fd00:a::1', '203.0.113.9', '2001:db8:9::1']);
      assert.deepEqual(
        sources.map(({ address }) => address),
        [POD.IPv4, POD.IPv6, NODE.IPv4, NODE.IPv6],
      );

      await agent.volume.swap(AFTER);
      await eventually(
        async () => /198\.18\.0\.0\/15[\s\S]*fd00:b::\/32/.test(await listing(listings)),
        () => 'the new rules of both families',
      );
      assert.doesNotMatch(await listing(listings), /10\.0\.0\.0\/8|fd00:a::/);

      assert.equal(await stop(agent), '0 false');
      assert.match(await listing(listings), /198\.18\.0\.0\/15[\s\S]*fd00:b::\/32/);
      assert.equal(await readFile(agent.terminationMessage, 'utf8'), '');

      await using cleaner = await get().start(AFTER, 'cleanup');
      assert.equal(await cleaner.exitCode(), 0);
      assert.doesNotMatch(await listing(listings), /ip-masq-agent/i);
    });
  }

  it('ends with code 3 if no config directory is mounted, instead of taking its defaults', async () => {
    const { code, stderr } = await get().docker.run('run', '--rm', '--network=host', get().image);
    assert.equal(code, 3);
    assert.match(stderr, /\/etc\/config/);
  });

  it('waits for the lock of the node, as all do who change its rules', async () => {
    const { node } = get().docker;
    const lock = node.env['XTABLES_LOCKFILE'] ?? '';
    const holder = node.spawn('flock', [lock, 'cat'], { stdio: ['pipe', 'pipe', 'inherit'] });
    // Whatever comes back comes from `cat`, so the lock is held.
    const held = new Promise((resolve) => holder.stdout?.once('data', resolve));
    holder.stdin?.write('\n');
    await held;
    await using agent = await get().start(BEFORE, '--enable-ipv6', '--iptables-mode=legacy');
    await eventually(
      async () => /xtables lock/.test(await agent.logs()),
      () => 'the agent to say that the lock is held',
    );
    assert.doesNotMatch(await succeed(node.run('iptables-legacy-save', ['-t', 'nat'])), /10\.0\.0\.0\/8/);
    holder.stdin?.end();
    await ready(agent);
    assert.match(await listing(DATAPLANES['iptables in legacy mode'].listings), /10\.0\.0\.0\/8/);
    assert.equal(await stop(agent), '0 false');
    const log = jsonLines(await agent.logs());
    assert.ok(log.length > 0);
  });
}
