import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, open, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { RUNS } from '../lab/runs.ts';
import { BINARY, createNode, eventually, inside, jsonLines, type NodeLab, SERVED } from './support.ts';
import { holdLock } from './xtables-lock.ts';

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
    assert.match(String(change['msg']), /IPv4: rules added 1, removed 1, kept 3/);
    assert.deepEqual(change['verdicts'], [
      '10.1.0.0/16: not masqueraded → masqueraded',
      '10.3.0.0/16: masqueraded → not masqueraded',
    ]);
    assert.match(JSON.stringify(change['rules']), /\+ -d 10\.3\.0\.0\/16 .*\(ip-masq-cloud:1:22\)/);
    assert.match(JSON.stringify(change['rules']), /- -d 10\.1\.0\.0\/16 /);
    await agent.stop();
  });

  it('names the config files that are gone, and goes on, also with --strict', async () => {
    await using node = await createNode();
    const configFile = inside('10.1.0.0/16');
    const volume = await node.volume({ 'ip-masq-a': configFile, 'ip-masq-b': '{}', 'ip-masq-c': '{}' });
    const agent = node.start('--resync-interval=100ms', '--strict', '--v=3', '--vanished-grace=0');
    await chainHolds(node, ['10.1.0.0/16']);
    await volume.swap({ 'ip-masq-a': configFile, 'ip-masq-b': '{}' });
    await agent.logged(
      /"level":"warn".*gone since the last reading: ip-masq-c; .*IPv4: no verdict changes; .*restore the ConfigMap/,
    );
    await volume.swap({});
    await agent.logged(
      /"level":"warn".*"verdicts":\["10\.0\.0\.0\/16: masqueraded → not.*gone since the last reading: ip-masq-a, ip-masq-b; /,
    );
    await agent.logged(/ip-masq-a, ip-masq-b(?:.*\n)*(?:.*"reason":"resync".*\n){2}/);
    assert.equal(agent.log().split('gone since').length, 3);
    await agent.stop();
  });

  it('says in the log and on the status page what happens to packets', async () => {
    await using node = await createNode();
    const volume = await node.volume({ 'ip-masq-a': inside('10.0.0.0/8') });
    const agent = node.start('--resync-interval=1h', '--log-format=text', SERVED);
    await agent.logged(/kept 0; before, the agent's rules masqueraded nothing family=/);
    const many = Array.from({ length: 40 }, (_, index) => `192.168.${2 * index}.0/24`);
    await volume.swap({ 'ip-masq-a': inside('10.0.0.0/9', ...many) });
    const [, lines = ''] = await agent.logged(
      /; the verdict changes for 8,398,848 addresses; connections that exist keep .*reason=change.*\n((?: {2}.*\n)+)/,
    );
    assert.match(lines, /^ {2}10\.128\.0\.0\/9: not masqueraded → masqueraded\n {2}192\.168\.0\.0\/24: masq/);
    assert.match(lines, /\n {2}… and 21 more ranges, 5,376 addresses\n/);
    // The same in other words.
    await volume.swap({ 'ip-masq-a': inside('10.0.0.0/10', '10.64.0.0/10', ...many) });
    await agent.logged(/; no verdict changes family=/);
    const page = await node.fetch('/statusz');
    assert.match(
      page,
      /IPv4: the verdict changes for 8,398,848 addresses<\/p>\n<pre>10\.128\.0\.0\/9: not masq/,
    );
    assert.match(page, /… and 21 more ranges, 5,376 addresses<\/pre>/);
    await agent.stop();
  });

  it('follows files of a plain directory', async () => {
    await using node = await createNode();
    const agent = node.start('--resync-interval=1h');
    await chainHolds(node, ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16']);
    await writeFile(join(node.configDir, 'ip-masq-x'), inside('10.1.0.0/16'));
    await chainHolds(node, ['10.1.0.0/16']);
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

  it('ends with exit code 3 when ..data goes away; the rules stay', async () => {
    await using node = await createNode();
    const volume = await node.volume({ 'ip-masq-a': inside('10.1.0.0/16', '10.2.0.0/16') });
    const agent = node.start('--log-format=text', '--resync-interval=200ms');
    await chainHolds(node, ['10.1.0.0/16', '10.2.0.0/16']);
    const before = await node.kernel();
    await volume.loseData();
    assert.deepEqual(await agent.ended, { code: 3, signal: null });
    assert.match(agent.log(), /ERROR error: \.\.data is gone from config directory .*delete the pod/);
    assert.equal(await node.kernel(), before);
  });

  it('reports what another program changed also if the config changes at the same time', async () => {
    for (const flags of [['--iptables-mode=nft'], ['--iptables-mode=legacy']]) {
      await using node = await createNode();
      const volume = await node.volume({ 'ip-masq-a': inside('10.1.0.0/16') });
      const agent = node.start('--resync-interval=1h', '--netlink=off', ...flags);
      await agent.logged(/"reason":"start"/);
      for (const [command, ...args] of [
        ['nft', 'flush', 'ruleset'],
        ['iptables-legacy', '-t', 'nat', '-F'],
      ]) {
        await node.box.run(command ?? '', args);
      }
      await volume.swap({ 'ip-masq-a': inside('10.1.0.0/16', '10.2.0.0/16') });
      await agent.logged(
        /"level":"warn".*"reason":"change","found":\[[^\]]*"(?:rules differ|no readable chain|table missing)"/,
      );
      await agent.stop();
    }
  });

  it('obeys resyncInterval of a config file', async () => {
    await using node = await createNode();
    await node.volume({ 'ip-masq-cloud': `resyncInterval: 100ms\n${inside('10.1.0.0/16')}` });
    const agent = node.start('--resync-interval=1h', '--netlink=off', '--backend=iptables');
    await chainHolds(node, ['10.1.0.0/16']);
    await node.iptables('-F', 'IP-MASQ-AGENT');
    await chainHolds(node, ['10.1.0.0/16']);
    await agent.stop();
  });

  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    it(`ends with exit code 0 at ${signal}; the rules stay`, async () => {
      await using node = await createNode();
      const agent = node.start('--resync-interval=1h');
      await agent.logged(/"reason":"start"/);
      const before = await node.kernel();
      agent.kill(signal);
      assert.deepEqual(await agent.ended, { code: 0, signal: null });
      assert.equal(await node.kernel(), before);
    });
  }

  it('is silent about syncs that change nothing, below --v=3', async () => {
    await using node = await createNode();
    const agent = node.start('--resync-interval=100ms', SERVED);
    await agent.logged(/metrics, probes and status on/);
    const before = agent.log();
    const unchanged = /^ip_masq_agent_syncs_total\{family="IPv4",result="unchanged"\} ([3-9]|\d{2,})$/m;
    await eventually(
      async () => unchanged.test(await node.metrics()),
      () => 'three syncs that change nothing',
    );
    // The watchers beside the loop may have told of the node meanwhile.
    assert.doesNotMatch(agent.log().slice(before.length), /"reason":/);
    await agent.stop();
  });

  it('notices with one line that klog flags do nothing', async () => {
    await using node = await createNode();
    const { code, stderr } = await node.agent('--once', '-logtostderr', '--stderrthreshold=INFO', '-v', '2');
    assert.equal(code, 0);
    assert.match(stderr, /does not use klog: --logtostderr, --stderrthreshold/);
  });
});

describe('a log that nobody reads', () => {
  it('keeps the agent neither from its rules nor from its end', async () => {
    await using node = await createNode();
    const ranges = cidrs(10);
    await writeFile(join(node.configDir, 'ip-masq-x'), inside(...ranges));
    const args = [`--config-dir=${node.configDir}`, '--resync-interval=100ms', '--v=5'];
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

describe('a system that refuses ends the agent with exit code 1:', () => {
  it('iptables is missing', async () => {
    await using node = await createNode();
    const run = (...flags: string[]) =>
      runWith(node, { PATH: '/nonexistent' }, '--log-format=text', ...flags);
    const { code, stderr } = await run('--backend=iptables');
    assert.equal(code, 1);
    assert.match(stderr, /FATAL no iptables of either mode is installed; install /);
    // nftables needs no program.
    const auto = await run();
    assert.equal(auto.code, 0, auto.stderr);
    assert.match(auto.stderr, /using nftables: iptables does not work here: no iptables of either mode is/);
    const blind = await run('--netlink=off');
    assert.equal(blind.code, 1);
    assert.match(
      blind.stderr,
      /FATAL it is unknown whether this node has nftables rules .*--backend=iptables/,
    );
  });

  it('ip6tables is missing although IPv6 is on; without IPv6 it is not missed', async () => {
    await using node = await createNode();
    await writeFile(join(node.configDir, 'ip-masq-x'), inside('10.1.0.0/16'));
    const bin = join(node.dir, 'bin');
    await mkdir(bin);
    for (const tool of ['iptables-nft', 'iptables-nft-restore'])
      await symlink(`/usr/sbin/${tool}`, join(bin, tool));
    const flags = ['--backend=iptables', '--log-format=text'];
    const { code, stderr } = await runWith(node, { PATH: bin }, '--enable-ipv6', ...flags);
    assert.equal(code, 1);
    assert.match(stderr, /FATAL ip6tables-nft-restore is not installed; /);
    const without = await runWith(node, { PATH: bin });
    assert.equal(without.code, 0, without.stderr);
    assert.doesNotMatch(without.stderr, /"level":"(warn|error)"/);
  });

  for (const flag of ['--iptables-mode=nft', '--iptables-mode=legacy', '--backend=nftables']) {
    it(`the capability NET_ADMIN is missing, ${flag}`, async () => {
      await using node = await createNode();
      const before = await node.kernel();
      const drop = ['--inh-caps=-all', '--bounding-set=-net_admin'];
      const agent = [
        process.execPath,
        BINARY,
        `--config-dir=${node.configDir}`,
        '--once',
        '--log-format=text',
        flag,
      ];
      const { code, stderr } = await node.box.run('setpriv', [...drop, ...agent]);
      assert.equal(code, 1, stderr);
      assert.match(
        stderr,
        /FATAL (iptables-nft|iptables-legacy|cannot read the generation).*(Permission denied|not permitted|EPERM).*NET_ADMIN/,
      );
      assert.equal(await node.kernel(), before);
    });
  }

  it('the xtables lock stays busy for --sync-timeout', async () => {
    await using node = await createNode();
    const before = await node.kernel();
    const holder = await holdLock(node);
    const { code, stderr } = await node.agent(
      '--once',
      '--iptables-mode=legacy',
      '--sync-timeout=1500ms',
      '--log-format=text',
    );
    holder.kill();
    assert.equal(code, 1, stderr);
    assert.match(stderr, /FATAL gave up after 1500 ms: .*xtables lock/);
    assert.equal(await node.kernel(), before);
  });

  it('but not when the lock is free in time', async () => {
    await using node = await createNode();
    const holder = await holdLock(node);
    const agent = node.start('--once', '--iptables-mode=legacy', '--log-format=text');
    await agent.logged(/trying again: .*xtables lock/);
    holder.kill();
    assert.equal((await agent.ended).code, 0, agent.log());
    await agent.logged(/IPv4: rules added 5/);
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

describe('hundreds of swaps', () => {
  it('never bring a mixed volume version into the kernel, and the last one always arrives', async () => {
    await using node = await createNode();
    const version = (number: number) => ({
      'ip-masq-a': inside(`10.${number}.0.0/16`),
      'ip-masq-b': inside(`11.${number}.0.0/16`),
    });
    const volume = await node.volume(version(0));
    const agent = node.start('--resync-interval=1h');
    await chainHolds(node, ['10.0.0.0/16', '11.0.0.0/16']);
    const seen = new Set<string>();
    let swapping = true;
    const watcher = (async () => {
      while (swapping) {
        const [a = '', b = ''] = await destinations(node);
        assert.equal(a.slice(3), b.slice(3), `mixed: ${a} and ${b}`);
        seen.add(a);
      }
    })();
    let number = 0;
    while (number < 250) {
      number += 1;
      await volume.swap(version(number));
      // At full speed the agent passes over volume versions: it gets the time for some of them.
      if (number % 25 === 0)
        await eventually(
          () => seen.has(`10.${number}.0.0/16`),
          () => `volume version ${number}`,
        );
    }
    swapping = false;
    await watcher;
    await chainHolds(node, [`10.${number}.0.0/16`, `11.${number}.0.0/16`]);
    await agent.stop();
  });
});

/** Runs the agent once, with its environment changed. */
function runWith(node: NodeLab, env: Readonly<Record<string, string>>, ...args: string[]) {
  const settings = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  return node.box.run('env', [
    ...settings,
    process.execPath,
    BINARY,
    `--config-dir=${node.configDir}`,
    '--once',
    ...args,
  ]);
}

/** What the chain returns, link-local left out. */
async function destinations(node: NodeLab): Promise<readonly string[]> {
  const rules = await node.chain();
  return rules
    .flatMap((rule) => /^-d (\S+)/.exec(rule)?.[1] ?? [])
    .filter((cidr) => cidr !== '169.254.0.0/16');
}

/** What the set of nftables holds, link-local left out. */
async function elements(node: NodeLab): Promise<readonly string[]> {
  const listing = await node.run('nft', 'list', 'set', 'ip', 'ip-masq-agent', 'not-masqueraded');
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
