import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import { succeed } from '../lab/run.ts';
import { IS_ROOT } from '../lab/user.ts';
import { createNode, eventually, type NodeLab, SERVED } from './support.ts';

const CONFIG = { 'ip-masq-a': 'nonMasqueradeCIDRs: [10.1.0.0/16]\n' };
const OTHER = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'];
const onlyRoot = { skip: !IS_ROOT && 'only root can act as two users' };

/** Listens on the name of the lock; says so, and what a client sends. */
const HOLD = `require('node:net').createServer(() => {}).listen('\\0ip-masq-agent', () => console.log('held'))`;

/** Binds the name without listening, which Node.js cannot. */
const BIND = `use Socket; socket(my $s, AF_UNIX, SOCK_STREAM, 0); bind($s, pack('S a*', AF_UNIX, "\\0ip-masq-agent"))
  or die; $| = 1; print "held\\n"; sleep 60`;

/** Connects as a client, says what it gets, and waits. */
const CLIENTS = `const { connect } = require('node:net');
let text = '';
for (let n = 0; n < 200; n += 1) connect('\\0ip-masq-agent').on('data', (d) => (text += d)).on('error', () => {});
setTimeout(() => console.log('got ' + text.length), 500);`;

/** Starts a program, by default as another user, and waits for its first line. */
async function started(node: NodeLab, command: readonly string[], user: readonly string[] = OTHER) {
  const [file = '', ...args] = [...user, ...command];
  const child = node.box.spawn(file, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = await once(child.stdout ?? assert.fail(), 'data');
  const stop = async () => {
    child.kill('SIGKILL');
    await once(child, 'close');
  };
  return { line: String(line), stop };
}

async function running(node: NodeLab, ...flags: string[]) {
  const agent = node.start('--resync-interval=1h', ...flags);
  await agent.logged(/"reason":"start"/);
  return agent;
}

describe('a second agent in the network namespace', () => {
  it('writes nothing, waits, and ends with exit code 1 and the name of the first', async () => {
    await using node = await createNode();
    await node.volume(CONFIG);
    const first = await running(node, '--backend=nftables');
    const before = await node.kernel();
    for (const flags of [[], ['--once'], ['--cleanup-on-exit']]) {
      const { code, stderr } = await node.agent('--sync-timeout=300ms', ...flags);
      assert.equal(code, 1);
      assert.match(
        stderr,
        /another agent already runs .*: ip-masq-agent \S+ \(process \d+\), and did not end within/,
      );
    }
    assert.equal(await node.kernel(), before);
    assert.match((await node.box.run('nft', ['list', 'tables'])).stdout, /ip-masq-agent/);
    first.kill('SIGKILL');
    await first.ended;
    assert.equal((await node.agent('--once')).code, 0);
  });

  it('takes over as soon as the first ends', async () => {
    await using node = await createNode();
    await node.volume(CONFIG);
    const first = await running(node);
    const second = node.start();
    await second.logged(/another agent already runs .*waiting up to 30s/);
    first.kill('SIGTERM');
    await second.logged(/using iptables/);
    await second.stop();
  });

  it('holds off cleanup, unless --force, which says that it is of no use', async () => {
    await using node = await createNode();
    // Otherwise it would write the rules again at once.
    const agent = await running(node, '--iptables-mode=legacy');
    const before = await node.kernel();
    const { code, stderr } = await node.agent('cleanup');
    assert.deepEqual([code, await node.kernel()], [1, before]);
    assert.match(stderr, /\(process \d+\) runs on this node, .*--force/);
    const forced = await node.agent('cleanup', '--force');
    assert.equal(forced.code, 0);
    assert.match(
      forced.stderr,
      /\(process \d+\) runs on this node, and writes the rules again: .*; stop it,/,
    );
    assert.doesNotMatch(await node.kernel(), /IP-MASQ-AGENT/);
    agent.kill('SIGKILL');
  });

  it('keeps its tables if cleanup is forced for another chain, which says so', async () => {
    await using node = await createNode();
    const agent = await running(node, '--backend=nftables');
    const table = () => node.run('nft', '-s', 'list', 'table', 'ip', 'ip-masq-agent');
    const before = await table();
    // An agent itself would remove those in nftables.
    const { stdout: input } = await node.agent('render', '--masq-chain=OTHER');
    await succeed(node.box.run('iptables-nft-restore', ['--noflush', '--wait'], { input }));
    const { code, stdout, stderr } = await node.agent('cleanup', '--masq-chain=OTHER', '--force');
    assert.deepEqual([code, await table()], [0, before]);
    assert.match(stdout, /^IPv4, iptables [\d.]+ \(nft\): removed 7 rules$/m);
    assert.doesNotMatch(stdout, /IPv4, nftables/);
    assert.match(stderr, /^ip-masq-agent: .*--masq-chain=IP-MASQ-AGENT: its tables of nftables stay;/m);
    assert.match((await node.agent('cleanup', '--force')).stdout, /^IPv4, nftables: removed 13 rules$/m);
    agent.kill('SIGKILL');
  });
});

describe('a process of another user that has the name of the lock', onlyRoot, () => {
  for (const [how, command] of [
    ['listens', [process.execPath, '-e', HOLD]],
    ['does not listen', ['perl', '-e', BIND]],
  ] as const)
    it(`does not stop the agent if it ${how}: the agent warns, and goes on`, async () => {
      await using node = await createNode();
      const squatter = await started(node, command);
      const agent = await running(node, SERVED);
      await agent.logged(/cannot take the lock against a second agent: .*goes on without it/);
      await agent.logged(/metrics, probes and status on/);
      assert.equal((await node.agent('cleanup', '--masq-chain=NONE')).code, 0);
      const diff = await node.agent('diff');
      assert.equal(diff.code, 0);
      if (how === 'listens')
        assert.match(diff.stderr, /flags of the agent .* unknown: user 65534 .*using the default/);
      await squatter.stop();
      await agent.stop();
    });

  it('learns nothing from the agent, and does not keep root from an answer', async () => {
    await using node = await createNode();
    const agent = await running(node, '--enable-ipv6');
    const { line } = await started(node, [process.execPath, '-e', CLIENTS]);
    assert.equal(line, 'got 0\n');
    assert.match((await node.agent('diff')).stderr, /flags of the running agent, .*: --enable-ipv6=true$/m);
    await agent.stop();
  });
});

describe('commands beside a running agent', () => {
  it('use its flags of policy and dataplane, never its paths, and say so', async () => {
    await using node = await createNode();
    await node.volume(CONFIG);
    const agent = await running(node, '--enable-ipv6', '--masq-chain=OTHER', '--cidr-limit-max=500');
    const said = /^ip-masq-agent: used the flags of the running agent, \S+: --\S+.*$/m;
    for (const words of [
      ['cleanup', '--dry-run'],
      ['diff'],
      ['explain', '--live', '10.1.2.3', 'fd00::1'],
      ['explain', 'fd00::1'],
      ['check'],
      ['render'],
    ]) {
      const { code, stderr } = await node.agent(...words);
      assert.equal(code, 0, stderr);
      const [line = ''] = said.exec(stderr) ?? [];
      const used =
        words[0] === 'cleanup' ? ['--masq-chain=OTHER'] : ['--enable-ipv6=true', '--cidr-limit-max=500'];
      for (const flag of used) assert.ok(line.includes(flag), stderr);
      assert.doesNotMatch(line, /--\S*(?:dir|address|log)/);
    }
    for (const words of [
      ['explain', 'x'],
      ['check', '--expect='],
    ])
      assert.doesNotMatch((await node.agent(...words)).stderr, /running agent/);
    assert.doesNotMatch((await node.agent('check', node.configDir)).stderr, /running agent/);
    assert.doesNotMatch((await node.agent('doctor')).stdout, /(?<!--masq-)chain|cleanup/);
    const given = await node.agent('diff', '--masq-chain=IP-MASQ-AGENT', '--enable-ipv6=false');
    assert.doesNotMatch(given.stderr, /masq-chain|enable-ipv6/);
    assert.equal(given.code, 4);
    await agent.stop();
  });

  it('say that it does not answer, if it is stopped', async () => {
    await using node = await createNode();
    const agent = await running(node);
    agent.kill('SIGSTOP');
    const { code, stderr } = await node.agent('status');
    assert.deepEqual(
      [code, stderr.includes('does not tell its state: it hangs, is stopped or cleans up')],
      [1, true],
      stderr,
    );
    assert.match((await node.agent('doctor')).stdout, /^agent-silent: /m);
    agent.kill('SIGCONT');
    await eventually(
      async () => (await node.agent('status')).code === 0,
      () => 'the agent to answer',
    );
    assert.doesNotMatch((await node.agent('doctor')).stdout, /agent-silent/);
    await agent.stop();
  });

  it('take no answer that is longer than any agent gives', async () => {
    await using node = await createNode();
    const answer = `{ version: 'x'.repeat(300 * 1024), flags: ['--enable-ipv6=true'] }`;
    const code = `require('node:net').createServer((c) => c.end(JSON.stringify(${answer}))).listen('\\0ip-masq-agent', () => console.log('held'))`;
    await started(node, [process.execPath, '-e', code], ['env']);
    assert.match((await node.agent('diff')).stderr, /flags of the agent on this node are unknown/);
  });

  it('take no flag that is not valid here', async () => {
    await using node = await createNode();
    const answer = {
      version: '9\u001b[2J',
      flags: ['--to-ports=all', '--config-dir=/', '--backend=nftables', '--enable-ipv6=true', 7],
      dataplane: { name: 7 },
    };
    const code = `require('node:net').createServer((c) => c.end(${JSON.stringify(JSON.stringify(answer))})).listen('\\0ip-masq-agent', () => console.log('held'))`;
    await started(node, [process.execPath, '-e', code], ['env']);
    const { stderr } = await node.agent('diff');
    assert.match(stderr, /^ip-masq-agent: not taken from the running agent: --to-ports=all: /m);
    assert.match(
      stderr,
      /^ip-masq-agent: used the flags of the running agent, 9\\x1b\[2J: --enable-ipv6=true$/m,
    );
    assert.match((await node.agent('doctor')).stdout, /; nftables: set by --backend;/);
  });
});
