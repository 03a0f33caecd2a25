import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { open, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { setInUse } from '../lab/own-sets.ts';
import { RUNS } from '../lab/runs.ts';
import {
  answers,
  BINARY,
  createNode,
  eventually,
  faultyNode,
  inside,
  jsonLines,
  type NodeLab,
  SERVED,
} from './support.ts';

const UNCHANGED = /^ip_masq_agent_syncs_total\{family="IPv4",result="unchanged"\} ([3-9]|\d{2,})$/m;

describe('the agent', () => {
  it('follows the swaps of a projected volume, and says what it changed', async () => {
    await using node = await createNode();
    const volume = await node.volume({
      'ip-masq-cloud': inside('10.1.0.0/16'),
      'ip-masq-operator': inside('10.2.0.0/16'),
    });
    const agent = node.start('--resync-interval=1h', '--vanished-grace=0');
    await chainHolds(node, ['10.1.0.0/16', '10.2.0.0/16']);
    await volume.swap({ 'ip-masq-cloud': inside('10.3.0.0/16'), 'ip-masq-operator': inside('10.2.0.0/16') });
    await chainHolds(node, ['10.3.0.0/16', '10.2.0.0/16']);
    await volume.swap({ 'ip-masq-operator': inside('10.2.0.0/16') });
    await chainHolds(node, ['10.2.0.0/16']);
    await agent.logged(/"reason":"change"/);
    const change = jsonLines(agent.log()).find(
      ({ reason, family }) => reason === 'change' && family === 'IPv4',
    );
    assert.ok(change);
    assert.match(String(change['msg']), /IPv4: rules added 1, removed 1, kept 4/);
    assert.deepEqual(change['verdicts'], [
      '10.1.0.0/16: not masqueraded → masqueraded',
      '10.3.0.0/16: masqueraded → not masqueraded',
    ]);
    assert.match(JSON.stringify(change['rules']), /\+ -d 10\.3\.0\.0\/16 .*\(ip-masq-cloud:1:22\)/);
    assert.match(JSON.stringify(change['rules']), /- -d 10\.1\.0\.0\/16 /);
    await agent.stop();
  });

  it('ends with exit code 3 at a broken swap; the rules stay, the termination log says why', async () => {
    await using node = await createNode();
    const terminationLog = join(node.dir, 'termination-log');
    await writeFile(
      terminationLog,
      'an older reason that is much longer than any that comes after it'.repeat(9),
      { mode: 0o666 },
    );
    const volume = await node.volume({ 'ip-masq-cloud': inside('10.1.0.0/16') });
    const agent = node.start('--resync-interval=1h', `--termination-log=${terminationLog}`);
    await chainHolds(node, ['10.1.0.0/16']);
    const before = await node.kernel();
    await volume.swap({ 'ip-masq-cloud': inside('10.1.0.1/16', 'fd00::/8') });
    assert.deepEqual(await agent.ended, { code: 3, signal: null });
    assert.equal(await node.kernel(), before);
    assert.match(
      await readFile(terminationLog, 'utf8'),
      /^2 errors in .*\nip-masq-cloud:1:22: error: .*\nip-masq-cloud:1:35: error: .*\n$/,
    );
    const errors = jsonLines(agent.log()).filter(({ level }) => level === 'error');
    assert.deepEqual(errors[0]?.['frame'], [
      ' 1 | nonMasqueradeCIDRs: [10.1.0.1/16, fd00::/8]',
      '   |                      ^',
    ]);
  });

  it('obeys resyncInterval of a config file', async () => {
    await using node = await createNode();
    await node.volume({ 'ip-masq-cloud': `resyncInterval: 100ms\n${inside('10.1.0.0/16')}` });
    const agent = node.start('--resync-interval=1h', SERVED);
    await agent.logged(/metrics, probes and status on/);
    await answers(node, '/metrics', UNCHANGED);
    await agent.stop();
  });
});

describe('a log that nobody reads', () => {
  it('keeps the agent neither from its rules nor from its end', async () => {
    await using node = await createNode();
    const ranges = cidrs(10);
    await writeFile(join(node.configDir, 'ip-masq-x'), inside(...ranges));
    const args = [`--config-dir=${node.configDir}`, '--resync-interval=100ms', '--v=3'];
    // A pipe that is open for reading, and never read: it holds 64 KiB.
    const path = join(node.dir, 'log');
    execFileSync('mkfifo', ['-m', '666', path]);
    await using pipe = await open(path, 'r+');
    const agent = node.box.spawn(BINARY, args, { stdio: ['ignore', 'ignore', pipe.fd] });
    await chainHolds(node, ranges);
    // Each repair logs 10 KB.
    for (let round = 0; round < 15; round += 1) {
      await node.iptables('-F', 'IP-MASQ-AGENT');
      await chainHolds(node, ranges);
    }
    const ended = new Promise((resolve) => agent.on('exit', resolve));
    agent.kill('SIGTERM');
    assert.equal(await ended, 0);
  });
});

it('--once ends with 1 if a signal comes before it has begun', async () => {
  await using node = await faultyNode('export NODE_OPTIONS=--import=$DIR/signal.mjs; exec $AGENT "$@"');
  // The agent has its handler of SIGTERM then, and nothing else.
  const script =
    "process.on('newListener', (name) => name === 'SIGHUP' && process.emit('SIGTERM', 'SIGTERM'));";
  await writeFile(join(node.scratch, 'signal.mjs'), script);
  await node.volume({ 'ip-masq-a': inside('10.1.0.0/16') });
  const { code, stderr } = await node.agent('--once');
  assert.equal(code, 1, stderr);
  assert.match(stderr, /SIGTERM: stopping, the rules stay/);
  assert.doesNotMatch(stderr, /while stopping|rules added/);
});

describe('without the capability NET_ADMIN the agent ends with exit code 1', () => {
  for (const flag of ['--iptables-mode=nft', '--iptables-mode=legacy', '--backend=nftables'])
    it(flag, async () => {
      await using node = await faultyNode(
        'exec setpriv --inh-caps=-all --bounding-set=-net_admin $AGENT "$@"',
      );
      const before = await node.kernel();
      const { code, stderr } = await node.agent('--once', '--log-format=text', flag);
      assert.equal(code, 1, stderr);
      assert.match(
        stderr,
        /FATAL (iptables-nft|iptables-legacy|cannot read the generation).*(Permission denied|not permitted|EPERM).*NET_ADMIN/,
      );
      assert.equal(await node.kernel(), before);
    });
});

describe('a kill at any instant', () => {
  for (const [flag, destinationsOf] of [
    ['--iptables-mode=nft', destinations],
    ['--backend=nftables', elements],
  ] as const)
    it(`leaves rules that are entirely old or entirely new, ${flag}`, async () => {
      await using node = await createNode();
      const configs = [cidrs(10), cidrs(11)];
      const start = () => node.start('--resync-interval=1h', flag);
      const volume = await node.volume({ 'ip-masq-x': inside(...(configs[0] ?? [])) });
      const seen = new Set<string>();
      const first = start();
      await first.logged(/"msg":"starting/);
      const started = performance.now();
      await first.logged(/"reason":"start"/);
      const untilRules = performance.now() - started;
      first.kill('SIGKILL');
      await first.ended;
      const rounds = 16 * RUNS;
      for (let round = 0; round < rounds; round += 1) {
        const agent = start();
        await agent.logged(/"msg":"starting/);
        // However long a start takes on this machine, the kills spread around the moment of the transaction.
        const next = configs[(round + 1) % 2] ?? [];
        const swap = volume.swap({ 'ip-masq-x': inside(...next) });
        await delay(((2 * round) / rounds) * untilRules);
        // Some come after it, so that both configs are seen.
        if (round % 5 === 4)
          await eventually(
            async () => (await destinationsOf(node).catch(() => [])).join() === next.join(),
            () => `the rules of ${next}`,
          );
        agent.kill('SIGKILL');
        await Promise.all([swap, agent.ended]);
        const now = await destinationsOf(node).catch(() => undefined);
        if (now === undefined) continue; // killed before there were rules
        const whole = configs.find((config) => config.join() === now.join());
        assert.ok(whole, `half of the rules: ${now}`);
        seen.add(whole.join());
      }
      assert.equal(seen.size, 2);
    });
});

/** What the chain returns, link-local left out. */
async function destinations(node: NodeLab): Promise<readonly string[]> {
  const rules = await node.chain();
  return rules
    .flatMap((rule) => /^-d (\S+)/.exec(rule)?.[1] ?? [])
    .filter((cidr) => cidr !== '169.254.0.0/16');
}

/** What the set of nftables holds, link-local left out. */
async function elements(node: NodeLab): Promise<readonly string[]> {
  const script = `nft list set ip ip-masq-agent ${setInUse('IPv4')}`;
  const listing = await node.run('sh', '-ec', script);
  const found = [...listing.matchAll(/([\d.]+\/\d+) counter/g)].map(([, element = '']) => element);
  return found.filter((cidr) => cidr !== '169.254.0.0/16');
}

async function chainHolds(node: NodeLab, expected: readonly string[]): Promise<void> {
  let now: readonly string[] = [];
  await eventually(
    async () => {
      now = await destinations(node).catch(() => []);
      return now.join() === expected.join();
    },
    () => `the chain to return ${expected}; it returns ${now}`,
  );
}

function cidrs(first: number): readonly string[] {
  return Array.from({ length: 60 }, (_, index) => `${first}.${index}.0.0/16`);
}
