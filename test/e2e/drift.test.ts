import assert from 'node:assert/strict';
import { cp } from 'node:fs/promises';
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

function assertCounted(metrics: string, drifts: (typeof WAYS)[number]['drifts']): void {
  const programs = drifts.map((drift) => programOf(drift).replace('-nft', ''));
  for (const [program, { length }] of Map.groupBy(programs, (one) => one))
    assert.match(metrics, new RegExp(`drift_repairs_total{family="IPv4",program="${program}"} ${length}\n`));
}

for (const {
  flag,
  drifts,
  list: [lister, ...args],
} of WAYS) {
  // While another program changes them all the time, the command can fail.
  const rules = async (node: NodeLab) => unnumbered((await node.box.run(lister, args)).stdout);
  describe(`drift, although the next resync is an hour away, ${flag}`, () => {
    it('is repaired, told with the program, and counted', async () => {
      await using node = await createNode();
      await node.volume(config('10.0.0.0/8', '192.168.0.0/16'));
      const agent = await watching(node, flag);
      const wanted = await rules(node);
      for (const [index, drift] of drifts.entries()) {
        await node.run('sh', '-ec', drift.script('IPv4', TOOL));
        const repairs = () =>
          jsonLines(agent.log()).filter((line) => line['found'] && line['reason'] === 'kernel');
        await eventually(
          () => repairs().length > index,
          () => `repair ${index + 1}; the log is ${agent.log()}`,
        );
        const { level, msg, found: differences } = repairs()[index] ?? {};
        assert.equal(level, 'warn');
        const said = new RegExp(
          `^IPv4: ${programOf(drift)} has changed the agent's rules; repaired: .*; rules added \\d`,
        );
        assert.match(`${msg}`, said);
        assert.ok(Array.isArray(differences) && differences.includes(drift.found[0]), `${differences}`);
        assert.equal(await rules(node), wanted);
        await readBack(agent);
      }
      assertCounted(await node.metrics(), drifts);
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
      // The names of its own tool and thread, cut to 15 bytes.
      assert.doesNotMatch(agent.log().slice(before), /iptables-nft-re\b|libuv-worker/);
      await agent.stop();
    });
  });
}

describe('an agent without its native module', () => {
  it('says so once, and keeps the rules with the tools alone', async () => {
    await using dir = await temporaryDirectory();
    for (const file of ['ip-masq-agent', 'ip-masq-agent.bundle', 'package.json'])
      await cp(join(dirname(BINARY), file), join(dir.path, file));
    await using node = await createNode(join(dir.path, 'ip-masq-agent'));
    const volume = await node.volume(config('10.1.0.0/16'));
    const agent = await serving(node);
    await agent.logged(
      /using iptables .*nf_tables cannot be asked about kube-proxy: cannot load .*koffi\.node/,
    );
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
    const once = await node.agent('--once');
    assert.equal(once.code, 0, once.stderr);
    for (const args of [['cleanup'], ['render', '--live', '--backend=nftables']]) {
      const { code, stdout, stderr } = await node.agent(...args);
      assert.equal(code, 1, stdout);
      assert.match(stderr, /cannot load the native module: .*; use an image/);
    }
  });
});
