import assert from 'node:assert/strict';
import { cp, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { DAMAGES } from '../lab/damages.ts';
import { unnumbered } from '../lab/own-sets.ts';
import { temporaryDirectory } from '../lab/volume.ts';
import {
  answers,
  BINARY,
  createNode,
  eventually,
  inside,
  jsonLines,
  type NodeLab,
  type RunningAgent,
  SERVED,
} from './support.ts';

const config = (...cidrs: string[]) => ({ 'ip-masq-a': inside(...cidrs) });
const LONG = '--resync-interval=1h';
const OUT_OF_SYNC = /^ip_masq_agent_rules_out_of_sync (\d)$/m;

/** Dataplanes in which the kernel tells of changes, and damages by each program. */
const WAYS = [
  {
    flag: '--iptables-mode=nft',
    drifts: [
      DAMAGES.iptables['a flushed ruleset'],
      DAMAGES.iptables['a flushed table'],
      DAMAGES.iptables['a deleted rule'],
    ],
    list: ['iptables-nft', '-t', 'nat', '-S'],
  },
  {
    flag: '--backend=nftables',
    drifts: [
      DAMAGES.nftables['a flushed ruleset'],
      DAMAGES.nftables['a removed element'],
      DAMAGES.nftables['a rule that somebody put into the chain'],
    ],
    list: ['nft', 'list', 'table', 'ip', 'ip-masq-agent'],
  },
] as const;

/** Starts the agent with its config, and waits until it serves. */
async function serving(node: NodeLab, ...flags: string[]): Promise<RunningAgent> {
  const agent = node.start(LONG, SERVED, '--v=3', ...flags);
  await agent.logged(/metrics, probes and status on/);
  return agent;
}

/** The same, and until it watches the kernel, which begins with a sync. */
async function watching(node: NodeLab, ...flags: string[]): Promise<RunningAgent> {
  const agent = await serving(node, ...flags);
  await agent.logged(/"reason":"kernel","msg":"nothing to change"/);
  return agent;
}

/** Waits until the agent has read back what it wrote: before that, it cannot tell drift from it. */
async function readBack(agent: RunningAgent): Promise<void> {
  const before = agent.log().length;
  agent.kill('SIGHUP');
  await eventually(
    () => /"reason":"signal","msg":"nothing to change"/.test(agent.log().slice(before)),
    () => `a sync without a change; the log is ${agent.log()}`,
  );
}

const TOOL = 'iptables-nft';

/** The program that does the damage. */
function programOf({ script }: (typeof WAYS)[number]['drifts'][number]): string {
  return script('IPv4', TOOL).split(' ', 1)[0] ?? '';
}

function assertCounted(metrics: string, drifts: (typeof WAYS)[number]['drifts'], isNamed: boolean): void {
  const programs = drifts.map((drift) => (isNamed ? programOf(drift).replace('-nft', '') : 'unknown'));
  for (const [program, { length }] of Map.groupBy(programs, (one) => one))
    assert.match(metrics, new RegExp(`drift_repairs_total{family="IPv4",program="${program}"} ${length}\n`));
  for (const {
    found: [found],
  } of drifts)
    assert.match(metrics, new RegExp(`drift_differences_total{family="IPv4",found="${found}"} [1-9]`));
}

for (const {
  flag,
  drifts,
  list: [lister, ...args],
} of WAYS) {
  // While another program changes them all the time, the command can fail.
  const rules = async (node: NodeLab) => unnumbered((await node.box.run(lister, args)).stdout);
  describe(`drift, although the next resync is an hour away, ${flag}`, () => {
    for (const [reason, flags] of [
      ['kernel', [LONG]],
      // The tools read chain and jump one after the other: a change in between is told as two.
      ...(flag === '--backend=nftables'
        ? []
        : ([['resync', ['--netlink=off', '--resync-interval=1s']]] as const)),
    ] as const)
      it(`is repaired, told with the program, and counted: by ${reason}`, async () => {
        await using node = await createNode();
        await node.volume(config('10.0.0.0/8', '192.168.0.0/16'));
        const agent =
          reason === 'kernel' ? await watching(node, flag, ...flags) : node.start(SERVED, flag, ...flags);
        await agent.logged(/metrics, probes and status on/);
        const wanted = await rules(node);
        for (const [index, drift] of drifts.entries()) {
          await node.run('sh', '-ec', drift.script('IPv4', TOOL));
          const repairs = () =>
            jsonLines(agent.log()).filter((line) => line['found'] && line['reason'] === reason);
          await eventually(
            () => repairs().length > index,
            () => `repair ${index + 1}; the log is ${agent.log()}`,
          );
          const { level, msg, found: differences } = repairs()[index] ?? {};
          assert.equal(level, 'warn');
          const program = reason === 'kernel' ? programOf(drift) : 'another program';
          const said = new RegExp(
            `^IPv4: ${program} has changed the agent's rules; repaired: .*; rules added \\d`,
          );
          assert.match(`${msg}`, said);
          assert.ok(Array.isArray(differences) && differences.includes(drift.found[0]), `${differences}`);
          assert.equal(await rules(node), wanted);
          if (reason === 'kernel') await readBack(agent);
        }
        assertCounted(await node.metrics(), drifts, reason === 'kernel');
        await agent.stop();
      });

    it('that a program makes again and again keeps the agent neither busy nor from a new config', async () => {
      await using node = await createNode();
      const volume = await node.volume(config('10.1.0.0/16'));
      const agent = await watching(node, flag);
      const old = await rules(node);
      await volume.swap(config('10.1.0.0/16', '10.2.0.0/16'));
      await agent.logged(/"reason":"change"/);
      const wanted = await rules(node);
      await volume.swap(config('10.1.0.0/16'));
      await eventually(
        async () => (await rules(node)) === old,
        () => 'the first config again',
      );

      const before = agent.log().length;
      const since = () => jsonLines(agent.log().slice(before));
      const other = node.box.spawn('sh', ['-c', 'while :; do nft flush ruleset; done'], { stdio: 'ignore' });
      assert.equal(OUT_OF_SYNC.exec(await node.metrics())?.[1], '0');
      const unready = /^503 \[-\] rules: nft changes the agent's rules again and again.*\nnot ok\n/;
      await answers(node, '/readyz', unready);
      assert.equal(OUT_OF_SYNC.exec(await node.metrics())?.[1], '1');
      await volume.swap(config('10.1.0.0/16', '10.2.0.0/16'));
      const isApplied = () => since().some(({ reason, found }) => reason === 'change' && found !== undefined);
      await eventually(isApplied, () => `the change; the log is ${agent.log()}`);
      other.kill('SIGKILL');
      await eventually(
        async () => (await rules(node)) === wanted,
        () => `the rules; the log is ${agent.log()}`,
      );
      await answers(node, '/readyz', /^200 ok\n/);
      await answers(node, '/metrics', /^ip_masq_agent_rules_out_of_sync 0$/m);
      await agent.stop();
    });
  });
}

describe('whether the agent watches nf_tables', () => {
  for (const [flags, gauge, isLoaded] of [
    [['--iptables-mode=nft'], '1', true],
    [['--backend=nftables'], '1', true],
    // For the reading of foreign rules.
    [['--iptables-mode=legacy'], undefined, true],
    [['--iptables-mode=legacy', '--netlink=off'], undefined, false],
  ] as const) {
    it(`is ${gauge ?? 'not'} in the gauge, and the native module is ${isLoaded ? '' : 'not '}loaded: ${flags.join(' ')}`, async () => {
      await using node = await createNode();
      await node.volume(config('10.1.0.0/16'));
      const agent = await serving(node, ...flags);
      assert.equal(/^ip_masq_agent_netlink_active (\d)$/m.exec(await node.metrics())?.[1], gauge);
      // No module, no socket: without it the agent cannot open one. In legacy mode the watcher of foreign rules loads it.
      await eventually(
        async () => {
          const maps = await readFile(`/proc/${jsonLines(agent.log())[0]?.['pid']}/maps`, 'utf8');
          return maps.includes('/koffi.node') === isLoaded;
        },
        () => `the module ${isLoaded ? '' : 'not '}to be loaded`,
      );
      await agent.stop();
    });
  }
});

describe('an agent without its native module', () => {
  it('says so once, and keeps the rules with the tools alone, if it is told to use iptables', async () => {
    await using dir = await temporaryDirectory();
    for (const file of ['ip-masq-agent', 'ip-masq-agent.bundle', 'package.json'])
      await cp(join(dirname(BINARY), file), join(dir.path, file));
    await using node = await createNode(join(dir.path, 'ip-masq-agent'));
    const volume = await node.volume(config('10.1.0.0/16'));
    const auto = await node.agent('--once');
    assert.equal(auto.code, 1);
    assert.match(auto.stderr, /nftables rules .* cannot load .*koffi\.node.*--backend=iptables/);
    const agent = await serving(node, '--backend=iptables');
    assert.equal((await node.chain()).length, 4);
    assert.match(await node.metrics(), /^ip_masq_agent_netlink_active 0$/m);
    await node.iptables('-F');
    assert.equal((await node.chain()).length, 0);
    agent.kill('SIGHUP');
    // So no event had led to a repair before.
    await agent.logged(/"reason":"signal".*repaired/);
    assert.equal((await node.chain()).length, 4);
    const warnings = jsonLines(agent.log()).filter(({ msg }) => /netlink fails/.test(`${msg}`));
    assert.deepEqual(
      warnings.map(({ level }) => level),
      ['warn'],
    );
    assert.match(`${warnings[0]?.['msg']}`, /^netlink fails: cannot load .*koffi\.node/);
    await volume.swap(config('10.1.0.1/16'));
    assert.deepEqual(await agent.ended, { code: 3, signal: null });
    await volume.swap(config('10.1.0.0/16'));
    const once = await node.agent('--once', '--backend=iptables');
    assert.equal(once.code, 0, once.stderr);
    for (const args of [['cleanup'], ['render', '--live', '--backend=nftables']]) {
      const { code, stdout, stderr } = await node.agent(...args);
      assert.equal(code, 1, stdout);
      assert.match(stderr, /cannot load the native module: .*; use an image/);
    }
    const blind = await node.agent('cleanup', '--netlink=off');
    assert.equal(blind.code, 0, blind.stderr);
    assert.match(blind.stderr, /nftables: not read/);
  });
});
