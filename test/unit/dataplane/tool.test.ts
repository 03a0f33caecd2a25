import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import { type Host, systemHost, type ToolResult } from '../../../lib/dataplane/host.ts';
import { detectMode } from '../../../lib/dataplane/iptables/detect.ts';
import { observe } from '../../../lib/dataplane/iptables/observe.ts';
import { createTool } from '../../../lib/dataplane/iptables/tool.ts';
import { runWithFewFiles } from '../../lab/few-files.ts';
import { hostWith } from './support.ts';

describe('what iptables says', () => {
  /** By failure: exit codes and texts. */
  const FAILURES: Readonly<Record<string, readonly (readonly [code: number, stderr: string])[]>> = {
    busy: [
      [4, 'Another app is currently holding the xtables lock. Stopped waiting after 1s.'],
      [4, 'iptables: Resource temporarily unavailable.'],
    ],
    denied: [
      [4, 'Could not fetch rule set generation id: Permission denied (you must be root)'],
      [3, "can't initialize iptables table `nat': Permission denied"],
    ],
    unsupported: [
      [4, 'Could not fetch rule set generation id: Invalid argument'],
      [4, 'socket: Address family not supported by protocol'],
      [4, 'iptables: Failed to initialize nft: Protocol not supported'],
    ],
    raced: [
      [1, 'iptables-restore: line 2 failed'],
      [1, 'line 2 failed: Bad rule (does a matching rule exist in that chain?).'],
      [4, 'iptables-nft-restore: line 3: RULE_DELETE failed (No such file or directory)'],
      [2, "iptables-nft-restore v1.8.9 (nf_tables): Chain 'X' does not exist"],
      [2, "iptables-restore v1.8.9 (legacy): Couldn't load target `X':No such file or directory"],
    ],
    refused: [
      [4, "Fatal: can't open lock file /run/xtables.lock: Read-only file system"],
      [4, "Fatal: can't open lock file /run/xtables.lock: Is a directory"],
      [4, 'iptables-nft-restore: line 5: RULE_APPEND failed (Operation not supported): rule in chain X'],
      [2, 'iptables-restore v1.8.9: unknown option "--frobnicate"'],
      [139, ''],
    ],
  };
  for (const [failure, cases] of Object.entries(FAILURES))
    for (const [code, stderr] of cases)
      it(`means ${failure}: ${stderr || `exit code ${code}`}`, async () => {
        const tool = createTool(hostWith({ 'iptables-nft-restore': { code, stderr } }), 'IPv4', '-nft');
        await assert.rejects(tool.restore('*nat\nCOMMIT\n'), { failure });
      });

  // Measured on Linux 6.1; nf_tables takes rules of IPv6 there.
  it('says what to do if IPv6 is turned off by ipv6.disable=1', async () => {
    const stderr = "can't initialize ip6tables table `nat': Address family not supported by protocol";
    const tool = createTool(hostWith({ 'ip6tables-legacy': { code: 3, stderr } }), 'IPv6', '-legacy');
    await assert.rejects(tool.list('X'), {
      failure: 'unsupported',
      remedy: /ipv6\.disable=1.*no rules of IPv4.*--enable-ipv6.*--iptables-mode=nft/,
    });
  });

  // pivpn/pivpn#1135; qoomon/docker-host#62; the last one is a kernel without nft_compat alone, as RHEL 10 has.
  const NO_CHAIN = 'CHAIN_ADD failed (No such file or directory): chain POSTROUTING';
  const warning = (name: string) =>
    `Warning: Extension ${name} revision 0 not supported, missing kernel module?\n`;
  for (const [stderr, modules, remedy] of [
    [`iptables v1.8.2 (nf_tables):  ${NO_CHAIN}`, 'nft_chain_nat', '--iptables-mode=legacy'],
    [
      `${warning('tcp')}${warning('DNAT')}iptables v1.8.10 (nf_tables):  ${NO_CHAIN}`,
      'nft_chain_nat, nft_compat, xt_tcp, xt_DNAT',
      '--iptables-mode=legacy',
    ],
    [warning('comment'), 'nft_compat, xt_comment', '--backend=nftables'],
  ] as const)
    it(`names the modules that the kernel lacks: ${modules}`, async () => {
      const tool = createTool(hostWith({ 'iptables-nft-restore': { code: 4, stderr } }), 'IPv4', '-nft');
      await assert.rejects(tool.restore('*nat\nCOMMIT\n'), (error) => {
        assert.ok(error instanceof DataplaneError && error.failure === 'unsupported');
        assert.ok(error.message.endsWith(`lacks some of ${modules}`), error.message);
        return error.remedy.endsWith(`or use ${remedy}`);
      });
    });

  for (const stderr of [
    'iptables: No chain/target/match by that name.',
    "iptables v1.8.9 (nf_tables): chain `X' in table `nat' is incompatible, use 'nft' tool.",
    "ip6tables: can't initialize ip6tables table `nat': Table does not exist (do you need to insmod?)",
  ]) {
    it(`means there is no such chain: ${stderr}`, async () => {
      const tool = createTool(hostWith({ iptables: { code: 1, stderr } }), 'IPv4', '');
      assert.equal(await tool.list('X'), undefined);
    });
  }
});

describe('a listing', () => {
  const list = (stdout: string) => createTool(hostWith({ iptables: { stdout } }), 'IPv4', '').list('X');

  for (const stdout of ['', '\n', 'hello\n', '-P POSTROUTING ACCEPT\n', '-N XY\n', '# -N X\n']) {
    it(`of another thing is refused, not taken for an empty chain: ${JSON.stringify(stdout)}`, async () => {
      await assert.rejects(list(stdout), { failure: 'refused', message: /printed no listing/ });
    });
  }

  it('is what stands behind -A and the chain, also where that is nothing', async () => {
    const rules = await list('-N X\n-A X -j RETURN\n-A X\n-A XY -j DROP\n');
    assert.deepEqual(rules, ['-j RETURN', '']);
  });

  it('has no rule that is only part of a comment', async () => {
    const rules = await list('-P X ACCEPT\n-A X -m comment --comment "a \\"\n-A X -j Y\n" -j RETURN\n');
    assert.deepEqual(rules, ['-m comment --comment "a \\"\n-A X -j Y\n" -j RETURN']);
  });
});

describe('a jump', () => {
  const spec = '-m comment --comment "a jump" -j X';
  const command = 'iptables --wait 1 -t nat -C POSTROUTING -m comment --comment a jump -j X';
  const toolSaying = (code: number, stderr: string) =>
    createTool(hostWith({ [command]: { code, stderr } }), 'IPv4', '');

  // Measured with iptables 1.8.9 and 1.8.11.
  for (const [code, stderr, answer] of [
    [0, '', true],
    [1, 'iptables: Bad rule (does a matching rule exist in that chain?).', false],
    [2, "iptables v1.8.9 (legacy): Couldn't load target `X':No such file or directory", false],
    [3, 'Error: cmp sreg undef\niptables v1.8.9 (nf_tables): Parsing nftables rule failed', 'blocked'],
    [1, "iptables v1.8.9 (nf_tables): chain `POSTROUTING' in table `nat' is incompatible", 'blocked'],
    [1, 'iptables: Failed to initialize nft: Operation not permitted', 'denied'],
    [4, 'Another app is currently holding the xtables lock.', 'busy'],
  ] as const)
    it(`is there, or not, only if iptables could look for it: ${answer}, ${stderr}`, async () => {
      const found = toolSaying(code, stderr).finds('POSTROUTING', spec);
      if (answer === 'busy') await assert.rejects(found, { failure: answer });
      else {
        const told = await found;
        assert.equal(told instanceof DataplaneError ? told.failure : told, answer);
      }
    });

  it('that iptables prints and does not find by these words is left alone, until it finds it', async () => {
    const answers: Record<string, Partial<ToolResult>> = {
      'iptables --wait 1 -t nat -S X': { stdout: '-N X\n' },
      'iptables --wait 1 -t nat -S POSTROUTING': {
        stdout: `-P POSTROUTING ACCEPT\n-A POSTROUTING ${spec}\n`,
      },
    };
    const tool = createTool(hostWith(answers), 'IPv4', '');
    const jumps = async () => (await observe(tool, { chain: 'X', candidates: ['X'], most: undefined })).jumps;
    answers[command] = { code: 2, stderr: 'iptables v1.8.9: unknown option "--odd"' };
    assert.deepEqual(await jumps(), []);
    answers[command] = { code: 4, stderr: 'Another app is currently holding the xtables lock.' };
    await assert.rejects(jumps(), { failure: 'busy' });
    answers[command] = {};
    assert.deepEqual(await jumps(), [spec]);
  });
});

describe('an installed iptables', () => {
  const version = (text: string) => ({ stdout: `iptables ${text}\n` });

  it('of the plain name serves for the mode that it is of', async () => {
    const host = hostWith({ 'iptables --version': version('v1.8.11 (nf_tables)') });
    assert.deepEqual(await detectMode(host, 'nft'), {
      mode: 'nft',
      suffix: '',
      version: '1.8.11',
      reason: 'set by --iptables-mode',
    });
    await assert.rejects(detectMode(host, 'legacy'), { failure: 'missing', message: /mode legacy/ });
  });

  it('of nft mode makes way for legacy on a kernel without nf_tables', async () => {
    const refusal = { code: 4, stderr: 'Could not fetch rule set generation id: Invalid argument' };
    const answers = {
      'iptables-nft --version': version('v1.8.9 (nf_tables)'),
      'iptables-nft': refusal,
      'iptables-legacy --version': version('v1.8.9 (legacy)'),
      'iptables-legacy': { stdout: '-P POSTROUTING ACCEPT\n' },
    };
    const { mode, reason } = await detectMode(hostWith(answers), 'auto');
    assert.equal(mode, 'legacy');
    assert.match(reason, /nft mode does not work here: .*Invalid argument/);
    const { 'iptables-legacy': _, 'iptables-legacy --version': __, ...nftOnly } = answers;
    const failed = { failure: 'unsupported', message: /Invalid argument/ };
    await assert.rejects(detectMode(hostWith(nftOnly), 'auto'), failed);
  });

  // Measured with a filter of seccomp that answers socket(AF_NETLINK) with EPERM, EACCES, ENOSYS or EAFNOSUPPORT.
  for (const reason of [
    'Operation not permitted',
    'Permission denied',
    'Function not implemented',
    'Address family not supported by protocol',
  ])
    it(`of nft mode without netlink is not taken for one that is not installed: ${reason}`, async () => {
      const host = hostWith({
        'iptables-nft --version': { code: 1, stderr: `iptables: Failed to initialize nft: ${reason}\n` },
        'iptables-legacy --version': version('v1.8.9 (legacy)'),
        'iptables-legacy': { stdout: '-P POSTROUTING ACCEPT\n' },
      });
      await assert.rejects(detectMode(host, 'auto'), { failure: 'denied', remedy: /netlink/ });
      assert.equal((await detectMode(host, 'legacy')).mode, 'legacy');
    });

  it('of legacy mode that cannot be run is no reason not to use nft mode where that decides', async () => {
    const working = hostWith({
      'iptables-nft --version': version('v1.8.9 (nf_tables)'),
      'iptables-nft': { stdout: '-N KUBE-IPTABLES-HINT\n-N KUBE-KUBELET-CANARY\n' },
    });
    const host: Host = {
      ...working,
      async run(file, args) {
        if (file === 'iptables-legacy') throw new DataplaneError('refused', 'EACCES', 'look');
        return working.run(file, args);
      },
    };
    assert.equal((await detectMode(host, 'auto')).mode, 'nft');
  });

  for (const early of ['v1.6.2', 'v1.6.10', 'v1.8'])
    it(`${early} that does not say its mode is of legacy mode`, async () => {
      const detected = await detectMode(hostWith({ 'iptables --version': version(early) }), 'auto');
      assert.deepEqual([detected.mode, detected.reason], ['legacy', 'iptables-nft is not installed']);
    });

  for (const old of ['v1.4.21', 'v1.6', 'v1.6.1', 'v0.9.8'])
    it(`${old} is too old`, async () => {
      const failed = { failure: 'missing', message: /too old/, remedy: /1\.6\.2/ };
      await assert.rejects(detectMode(hostWith({ 'iptables --version': version(old) }), 'auto'), failed);
    });
});

describe('a tool of the system', { concurrency: true }, () => {
  // Folders on the PATH that the tests' user may not enter would make a missing tool a refused one.
  const path = process.env['PATH'];
  before(() => {
    process.env['PATH'] = '/usr/sbin:/usr/bin:/sbin:/bin';
  });
  after(() => {
    process.env['PATH'] = path;
  });
  const host = systemHost(30_000);
  const hasty = systemHost(300);

  it('gets its arguments and input as they are', async () => {
    const { stdout } = await host.run('cat', ['-', '/dev/null'], '$(id) `id` "\'\n');
    assert.equal(stdout, '$(id) `id` "\'\n');
  });

  it('that is not installed is missing', async () => {
    const message = /no-such-tool is not installed/;
    await assert.rejects(host.run('no-such-tool', []), { failure: 'missing', message });
  });

  it('that does not end is killed and refused', async () => {
    const message = /did not end within 300 ms/;
    await assert.rejects(hasty.run('sleep', ['60']), { failure: 'refused', message });
  });

  for (const what of ['fork or sleep 60; sleep 60', 'use POSIX; exit if fork; POSIX::setsid(); sleep 9'])
    it(`that leaves a grandchild behind does not keep the agent waiting for it: ${what}`, async () => {
      await assert.rejects(hasty.run('perl', ['-e', what]), { failure: 'refused' });
    });

  it('that prints without end is killed, and its output cut', async () => {
    const { isCut, code, stdout } = await systemHost(60_000).run('cat', ['/dev/zero']);
    assert.ok(isCut === true && code !== 0 && stdout.length <= 32 * 1024 * 1024);
  });

  it('that ends while the agent is stopped has ended in time', async () => {
    await using agent = await runWithFewFiles(
      'lib/dataplane/host.ts',
      `
      const running = module.systemHost(3000).run('sleep', ['2']);
      console.log('runs');
      running.then(({ code }) => console.log('code', code), ({ message }) => console.log(message));`,
    );
    const lines = agent.stdout[Symbol.asyncIterator]();
    assert.equal((await lines.next()).value, 'runs\n');
    agent.child.kill('SIGSTOP');
    // Both pass while it is stopped: the time of the tool, by so much that its timer is late, and its end.
    await delay(5_000);
    await childrenEnded(agent.child.pid);
    agent.child.kill('SIGCONT');
    assert.equal((await lines.next()).value, 'code 0\n');
  });

  it('that cannot start for lack of files is tried again', async () => {
    await using agent = await runWithFewFiles(
      'lib/dataplane/host.ts',
      `
      await module.systemHost(3000).run('true', []);
      try { for (;;) openSync('/dev/null'); } catch {}
      const { failure, message } = await module.systemHost(3000).run('true', []).catch((error) => error);
      console.log(failure, message);`,
    );
    assert.match(String((await agent.stdout.toArray()).join('')), /^exhausted true cannot be run: .*EMFILE/);
  });

  it('that a signal ended says so', async () => {
    const killed = host.run('perl', ['-e', 'kill "TERM", $$; sleep 60']);
    await assert.rejects(killed, { failure: 'exhausted', message: 'perl was ended by SIGTERM' });
  });

  it('sees no environment but what it needs', async () => {
    const { stdout } = await host.run('env', []);
    const names = stdout.split('\n').flatMap((line) => line.split('=')[0] || []);
    // Node.js passes the last one on by itself while it measures coverage.
    const needed = names.filter((name) => !/^(?:XTABLES_.*|NODE_V8_COVERAGE)$/.test(name));
    assert.deepEqual(needed.toSorted(), ['LC_ALL', 'PATH']);
  });
});

/** Waits for the end of what a stopped process has started: it stays there, because nobody asks for its exit code. */
async function childrenEnded(pid: number | undefined): Promise<void> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8');
  for (const child of children.split(' ').filter((text) => text !== ''))
    while (!/\) Z /.test(await readFile(`/proc/${child}/stat`, 'utf8'))) await delay(5);
}
