import assert from 'node:assert/strict';
import { chmod, mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import {
  answers,
  BINARY,
  createNode,
  eventually,
  faultyNode,
  holdLock,
  type NodeLab,
  REFUSE,
  SERVED,
} from './support.ts';

const VALID = { 'ip-masq-a': 'nonMasqueradeCIDRs: [10.1.0.0/16]\n' };
const INVALID = { 'ip-masq-a': 'nonMasqueradeCIDRs: [10.1.0.1/16]\n' };
const BACKENDS = ['iptables', 'nftables'] as const;
/** Where the rules are, with the table. */
const CHAINS = { iptables: 'nat IP-MASQ-AGENT', nftables: 'ip-masq-agent postrouting' } as const;

async function stateDir(node: NodeLab): Promise<string> {
  const dir = join(node.dir, 'state');
  await mkdir(dir, { mode: 0o755 });
  return dir;
}

/** What a reboot does to the kernel. */
async function reboot(node: NodeLab): Promise<void> {
  await node.nft('flush ruleset');
}

/** A node that has had a valid config, and has restarted with an invalid one. */
async function rebooted(node: NodeLab, args: readonly string[]) {
  const volume = await node.volume(VALID);
  assert.equal((await node.agent('--once', ...args)).code, 0);
  await volume.swap(INVALID);
  await reboot(node);
  return volume;
}

async function hasRules(node: NodeLab): Promise<boolean> {
  const { stdout } = await node.box.run('nft', ['list', 'ruleset']);
  return stdout.includes('10.1.0.0/16');
}

describe('an invalid config after a reboot', () => {
  // What the packets of each start do, and what it says, is in test/packets/state.test.ts.
  for (const backend of BACKENDS)
    it(`has the rules of the last valid one written once, kept, and replaced by the next valid one, ${backend}`, async () => {
      await using node = await createNode();
      const args = [`--state-dir=${await stateDir(node)}`, `--backend=${backend}`, '--resync-interval=1h'];
      const volume = await rebooted(node, args);
      assert.equal((await node.agent(...args)).code, 3);
      assert.ok(await hasRules(node));
      const written = await node.run('nft', '-a', 'list', 'ruleset');
      const { code, stderr } = await node.agent(...args);
      assert.equal(code, 3);
      assert.match(stderr, /the rules on this node do not change/);
      assert.equal(await node.run('nft', '-a', 'list', 'ruleset'), written);

      const ruleset = () => node.run('nft', '-s', 'list', 'ruleset');
      const before = await ruleset();
      await node.nft(`flush chain ip ${CHAINS[backend]}`);
      assert.match((await node.agent(...args)).stderr, /this node had no rules for IPv4, and now has/);
      assert.equal(await ruleset(), before);

      const agent = node.start(...args, '--on-invalid-config=keep', SERVED);
      await agent.logged(/metrics, probes and status on/);
      await reboot(node);
      await eventually(
        () => hasRules(node),
        () => 'the rules to come back',
      );
      await volume.swap({ 'ip-masq-a': 'nonMasqueradeCIDRs: [10.2.0.0/16]\n' });
      await agent.logged(/the config is valid again/);
      await eventually(
        async () => {
          const { stdout } = await node.agent('check', '-f', join(node.dir, 'state/last-valid.json'));
          return stdout.includes('10.2.0.0/16');
        },
        () => 'the state',
      );
      await agent.stop();
    });

  it('waits for the xtables lock before it says what rules the node has', async () => {
    await using node = await createNode();
    const args = [`--state-dir=${await stateDir(node)}`, '--iptables-mode=legacy'];
    await rebooted(node, args);
    for (const flag of ['-F', '-X']) await node.run('iptables-legacy', '-t', 'nat', flag);
    const lock = await holdLock(node);
    const agent = node.start(...args);
    // The tool gives up after a second.
    await delay(2_500);
    lock.kill();
    assert.equal((await agent.ended).code, 3);
    assert.match(agent.log(), /this node had no rules for IPv4, and now has those of its last valid config/);
    assert.match(await node.run('iptables-legacy', '-t', 'nat', '-S'), /10\.1\.0\.0\/16/);
  });

  it('does not bring back a config that is not valid with the flags of today', async () => {
    await using node = await createNode();
    const args = [`--state-dir=${await stateDir(node)}`];
    await rebooted(node, args);
    const { code, stderr } = await node.agent(...args, '--must-masquerade=10.1.2.0/24');
    assert.equal(code, 3);
    assert.match(stderr, /the last valid config, of .*, is not valid with these flags: ip-masq-a:1:22/);
    assert.equal(await hasRules(node), false);
  });
});

describe('a config file that vanishes', () => {
  const TWO = { ...VALID, 'ip-masq-b': 'nonMasqueradeCIDRs: [10.3.0.0/16]\n' };

  it('keeps its last text, of which all say the same, until the grace ends or the agent restarts', async () => {
    await using node = await createNode();
    const volume = await node.volume(TWO);
    const begin = async (grace: string) => {
      await volume.swap(TWO);
      const agent = node.start('--resync-interval=1h', SERVED, `--vanished-grace=${grace}`);
      await agent.logged(/metrics, probes and status on/);
      await volume.swap(VALID);
      await agent.logged(/ip-masq-b is gone; what it said applies until 20\S+, or until the agent restarts/);
      return agent;
    };
    const first = await begin('1h');
    const said = /ip-masq-b is gone; what it said applies until 20\S+Z/;
    assert.match(await node.metrics(), /_vanished_config_files 1/);
    assert.match(await node.fetch('/statusz'), said);
    assert.match(await node.fetch('/configz'), /"vanished": \[\s*\{\s*"file": "ip-masq-b",\s*"until": "20/);
    assert.match(await node.run(BINARY, 'status'), said);
    const { stdout } = await node.agent('doctor');
    assert.match(stdout, said);
    assert.doesNotMatch(stdout, /out-of-sync/);
    await first.stop();
    const second = await begin('2s');
    await second.logged(/ip-masq-b is gone since the last reading: the config is now read without it/);
    await second.logged(/- -d 10\.3\.0\.0\/16/);
    assert.match(await node.metrics(), /_vanished_config_files 0/);
    await second.stop();
  });

  it('is an error at once if --require-file names it', async () => {
    await using node = await createNode();
    const volume = await node.volume(TWO);
    const agent = node.start('--require-file=ip-masq-b', SERVED);
    await agent.logged(/metrics, probes and status on/);
    await volume.swap(VALID);
    assert.equal((await agent.ended).code, 3);
  });
});

it('the state is written only if the config changes; a directory that cannot be written is told, and the rules are there', async () => {
  await using node = await createNode();
  const dir = await stateDir(node);
  const volume = await node.volume(VALID);
  const agent = node.start(`--state-dir=${dir}`, '--resync-interval=200ms', SERVED);
  await agent.logged(/metrics, probes and status on/);
  await eventually(
    async () => (await readdir(dir)).includes('last-valid.json'),
    () => 'a state',
  );
  const first = await stat(join(dir, 'last-valid.json'));
  await node.iptables('-F', 'IP-MASQ-AGENT');
  await agent.logged(/repaired/);
  assert.deepEqual(await stat(join(dir, 'last-valid.json')), first);
  await chmod(dir, 0o777);
  await volume.swap({ 'ip-masq-a': 'nonMasqueradeCIDRs: [10.2.0.0/16]\n' });
  await agent.logged(/cannot write the last valid config to .*: other users may write to it/);
  await agent.logged(/\+ -d 10\.2\.0\.0\/16/);
  assert.match(await node.metrics(), /_last_valid_config_kept 0/);
  await agent.stop();
});

it('cleanup removes the state, and nothing else of the directory', async () => {
  await using node = await createNode();
  const dir = await stateDir(node);
  await node.volume(VALID);
  assert.equal((await node.agent('--once', `--state-dir=${dir}`)).code, 0);
  await writeFile(join(dir, 'note'), '');
  const { code, stderr } = await node.agent('cleanup', `--state-dir=${dir}`);
  assert.equal(code, 0);
  assert.match(stderr, /removed the last valid config from/);
  assert.deepEqual(await readdir(dir), ['note']);
});

it('the state is the old one or the new one, whole, wherever the disk is full', async () => {
  await using node = await createNode();
  const dir = await stateDir(node);
  const script = fileURLToPath(new URL('../lab/state-writer.ts', import.meta.url));
  const found = new Set<string>();
  // Each program has mounts of its own.
  const line = 'mount -t tmpfs -o "size=$3"k,mode=755 none "$0" && exec "$1" "$2" "$0"';
  for (const size of [4, 20, 24, 28, 32, 40, 44, 52])
    found.add((await node.run('sh', '-c', line, dir, process.execPath, script, `${size}`)).slice(0, 3));
  assert.deepEqual([...found], ['non', 'old', 'new']);
});

describe('a disk of --state-dir that hangs', () => {
  const hang = [REFUSE, 'fsync', 'hang', BINARY];

  it('stops neither a change, nor a repair, nor the end', async () => {
    await using node = await faultyNode(`exec perl ${hang.join(' ')} "$@"`);
    const volume = await node.volume(VALID);
    const agent = node.start(`--state-dir=${await stateDir(node)}`, '--backend=nftables', SERVED);
    await agent.logged(/metrics, probes and status on/);
    await answers(node, '/metrics', /_last_valid_config_kept 0/);
    await volume.swap({ 'ip-masq-a': 'nonMasqueradeCIDRs: [10.2.0.0/16]\n' });
    await agent.logged(/"reason":"change".*10\.2\.0\.0/);
    await node.nft('delete table ip ip-masq-agent');
    await agent.logged(/repaired/);
    await agent.stop();
  });

  it('is given up by --once, which says so', async () => {
    await using node = await createNode();
    await node.volume(VALID);
    const args = [
      '--once',
      `--config-dir=${node.configDir}`,
      `--state-dir=${await stateDir(node)}`,
      '--backend=nftables',
      '--sync-timeout=1s',
    ];
    const { code, stderr } = await node.box.run('perl', [...hang, 'run', ...args]);
    assert.equal(code, 0, stderr);
    assert.match(stderr, /"warn".*the last valid config is not written: the disk of --state-dir hangs/);
  });
});
