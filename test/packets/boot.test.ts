import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import {
  chmod,
  chown,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  rename,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createNode, eventually, type NodeLab, SERVED } from '../e2e/support.ts';
import { createNetwork, NODE, POD } from '../lab/network.ts';
import { IS_ROOT, NOBODY } from '../lab/user.ts';
import { DATAPLANES, NFTABLES, NO_NFTABLES } from './support.ts';

const SCRIPT = fileURLToPath(new URL('../../examples/systemd/ip-masq-agent-boot', import.meta.url));
const UNIT = fileURLToPath(new URL('../../examples/systemd/ip-masq-agent-boot.service', import.meta.url));
const FILES = {
  'ip-masq-a': 'nonMasqueradeCIDRs: [203.0.113.0/24, "fd00::/8"]\nmasqueradeCIDRs: [203.0.113.128/25]\n',
};
const IPV4_FILES = { 'ip-masq-a': 'nonMasqueradeCIDRs: [203.0.113.0/24]\n' };
const DESTINATIONS = ['203.0.113.9', '198.51.100.9', 'fd00:9::9', '2001:db8:9::9'];
const WITHOUT_RULES = [POD.IPv4, POD.IPv4, POD.IPv6, POD.IPv6];
const APPLIED = [POD.IPv4, NODE.IPv4, POD.IPv6, NODE.IPv6];
const NO_SYSTEMD = !existsSync('/usr/bin/systemd-analyze') && 'there is no systemd-analyze';
/** It reads only what is root's. */
const NO_ROOT = !IS_ROOT && 'needs root';

/** A node whose agent has kept its state, and that boots again. */
async function booted(node: NodeLab, files: Readonly<Record<string, string>>, ...args: string[]) {
  const dir = join(node.dir, 'state');
  await mkdir(dir, { mode: 0o755 });
  await node.volume(files);
  const { code, stderr } = await node.agent('--once', `--state-dir=${dir}`, ...args);
  assert.equal(code, 0, stderr);
  await forgetRules(node);
  return dir;
}

async function forgetRules(node: NodeLab): Promise<void> {
  await node.nft('flush ruleset');
  for (const tool of ['iptables-legacy', 'ip6tables-legacy']) {
    for (const change of ['-F', '-X']) await node.run(tool, '-t', 'nat', change);
  }
}

async function runBoot(node: NodeLab, dir: string, ...env: string[]): Promise<string> {
  const { code, stdout, stderr } = await node.box.run('env', [`STATE=${dir}`, ...env, SCRIPT]);
  assert.equal(code, 0, stderr);
  return stdout + stderr;
}

async function rules(node: NodeLab): Promise<string> {
  return (await node.run('nft', '-a', 'list', 'ruleset')) + (await node.kernel());
}

type Damage = (file: string, version: string, dir: string) => Promise<void>;

const append =
  (text: string): Damage =>
  async (file) =>
    writeFile(file, (await readFile(file, 'utf8')) + text);

const replace =
  (from: string | RegExp, to: string): Damage =>
  async (file) => {
    const text = await readFile(file, 'utf8');
    assert.notEqual(text.replace(from, to), text, 'nothing is replaced');
    await writeFile(file, text.replace(from, to));
  };

function damages(isNftables: boolean): Readonly<Record<string, Damage>> {
  const lines: Readonly<Record<string, Damage>> = isNftables
    ? {
        'a flush': append('flush ruleset\n'),
        'an include': append('include "/etc/passwd"\n'),
        'another table': append('table ip nat {\n}\n'),
        'another table in the same line': replace(
          'table ip ip-masq-agent {',
          'table ip x { } table ip ip-masq-agent {',
        ),
        'another hook': replace('hook postrouting', 'hook input'),
        'a comment that ends': replace('"ip-masq-agent: what', '" ; flush ruleset ; "ip-masq-agent: what'),
        'a define': append('define x = 1\n'),
        'a jump': replace(/return comment/, 'jump x comment'),
        'a definition in elements': replace(/elements = \{ /, 'elements = { $x, '),
      }
    : {
        'another chain': append('*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n'),
        'another table': append('*filter\n-A INPUT -j DROP\nCOMMIT\n'),
        'a flush': append('*nat\n-F\nCOMMIT\n'),
        'a delete': replace('COMMIT', '-D POSTROUTING 1\nCOMMIT'),
        'another target': replace('-j MASQUERADE', '-j DNAT --to-destination 192.0.2.9'),
        'another place for the jump': replace('-A POSTROUTING', '-A PREROUTING'),
        'a comment that ends': replace(
          '"ip-masq-agent: not',
          '"ip-masq-agent: x" -j ACCEPT -m comment --comment "not',
        ),
        'a policy': replace(':IP-MASQ-AGENT -', ':POSTROUTING DROP'),
        'another mode': async (file) => rename(file, file.replace(/(nft|legacy)$/, 'other')),
      };
  return {
    ...lines,
    'half a file': async (file) => {
      const text = await readFile(file, 'utf8');
      await writeFile(file, text.slice(0, text.length / 2));
    },
    'an empty file': async (file) => writeFile(file, ''),
    'an unusual byte': append('\u0000\n'),
    'a carriage return': append('\r\n'),
    'a file of another user': async (file) => chown(file, NOBODY, NOBODY),
    'a file that others may write': async (file) => chmod(file, 0o602),
    'a link': async (file) => {
      await rename(file, `${file}.real`);
      await symlink(`${file}.real`, file);
    },
    'a directory that others may write': async (_, version) => chmod(version, 0o777),
    'a state directory of another user': async (_, __, dir) => chown(dir, NOBODY, NOBODY),
    'a version elsewhere': async (_, version, dir) => {
      await rename(version, join(dir, 'elsewhere'));
      await symlink('elsewhere', join(dir, 'new'));
      await rename(join(dir, 'new'), join(dir, '..data'));
    },
    'too large a file': append(`${'#'.repeat(1_000_000)}\n`.repeat(34)),
    'a file that is gone': async (file) => rename(file, `${file}.gone`),
  };
}

function withoutCounts(text: string): string {
  return text.replace(/ packets \d+ bytes \d+|\[\d+:\d+\]|-c \d+ \d+/g, '');
}

describe('the boot unit', { skip: NO_ROOT }, () => {
  for (const kind of DATAPLANES)
    for (const [what, files, flags] of [
      ['a plain config', FILES, []],
      [
        'sources that are left alone',
        { ...FILES, 'ip-masq-b': 'nonMasqueradeFromCIDRs: [10.9.0.0/16]\n' },
        [],
      ],
      [
        'ranges of sources and ports',
        { ...FILES, 'ip-masq-b': 'masqueradeFromCIDRs: [10.244.0.0/16, "fd00:244::/32"]\n' },
        ['--to-ports=2000-2999,40000,50000-59999', '--random-fully=tcp,sctp'],
      ],
    ] as const)
      it(`writes what the agent then finds as it must be: ${kind.name}, ${what}`, async () => {
        await using node = await createNode();
        await using network = await createNetwork(node.box);
        const args = ['--enable-ipv6', ...kind.flags, ...flags];
        const dir = await booted(node, files, ...args);
        const sources = async () => (await network.sourcesSeen(DESTINATIONS)).map(({ address }) => address);
        assert.deepEqual(await sources(), WITHOUT_RULES);
        assert.match(await runBoot(node, dir), /the rules of the last boot are written/);
        assert.deepEqual(await sources(), APPLIED);
        const before = await rules(node);
        const agent = node.start(`--state-dir=${dir}`, ...args, SERVED);
        const started = agent.logged(/metrics, probes and status on/);
        for (let isUp = false; !isUp; ) {
          isUp = await Promise.race([started.then(() => true), delay(1, false)]);
          assert.deepEqual(await sources(), APPLIED);
        }
        assert.equal(withoutCounts(await rules(node)), withoutCounts(before));
        assert.doesNotMatch(agent.log(), /"transaction"|applied|repaired/);
        await eventually(
          async () => (await readdir(dir)).includes('..data'),
          () => 'the mark of the boot to be gone',
        );
        await agent.stop();
        assert.match(await runBoot(node, dir), /the node has them/);
      });

  it('masquerades what is to leave with an address that the node may have lost', async () => {
    await using node = await createNode();
    await using network = await createNetwork(node.box);
    const files = {
      ...FILES,
      'ip-masq-b': 'masqueradeAddresses: [{destination: 198.51.100.0/24, address: 192.0.2.0/24}]\n',
    };
    for (const { flags } of DATAPLANES) {
      const dir = await booted(node, files, '--enable-ipv6', ...flags);
      await runBoot(node, dir);
      const seen = await network.sourcesSeen(DESTINATIONS);
      assert.deepEqual(
        seen.map(({ address }) => address),
        APPLIED,
      );
      await forgetRules(node);
      await rename(dir, `${dir}-${flags.join()}`);
    }
  });

  for (const kind of DATAPLANES)
    it(`writes nothing of what the agent does not write: ${kind.name}`, async () => {
      await using node = await createNode();
      const kept = await booted(node, IPV4_FILES, ...kind.flags);
      const before = await rules(node);
      for (const [what, damage] of Object.entries(damages(kind === NFTABLES))) {
        const dir = join(node.dir, what);
        await node.run('cp', '-a', kept, dir);
        const version = join(dir, await readlink(join(dir, '..data')));
        const [name = ''] = (await readdir(version)).filter((one) => one.startsWith('boot.'));
        await damage(join(version, name), version, dir);
        const said = await runBoot(node, dir);
        assert.match(said, /no rules are written/, what);
        assert.equal(await rules(node), before, what);
      }
      assert.match(await runBoot(node, kept), /the rules of the last boot are written/);
    });

  for (const mode of ['nft', 'legacy'])
    it(`writes nothing for IPv4 if it refuses what is there for IPv6: iptables-${mode}`, async () => {
      await using node = await createNode();
      const dir = await booted(node, FILES, '--enable-ipv6', '--backend=iptables', `--iptables-mode=${mode}`);
      const before = await rules(node);
      const file = join(dir, '..data', `boot.ip6tables-restore-${mode}`);
      await writeFile(file, (await readFile(file, 'utf8')).replace('COMMIT', '-F\nCOMMIT'));
      assert.match(await runBoot(node, dir), /no rules are written/);
      assert.equal(await rules(node), before);
    });

  for (const [what, ...command] of [
    ['a link', 'ln', '--symbolic', '../elsewhere'],
    ['a pipe', 'mkfifo'],
  ] as const)
    it(`replaces ${what} that stands where it notes the boot`, async () => {
      await using node = await createNode();
      const dir = await booted(node, IPV4_FILES);
      await node.run('env', ...command, join(dir, 'boot-id'));
      assert.match(await runBoot(node, dir), /the rules of the last boot are written/);
      assert.ok((await lstat(join(dir, 'boot-id'))).isFile());
      assert.deepEqual((await readdir(node.dir)).toSorted(), ['config', 'state']);
    });

  it('writes nothing if CHAIN is not a name', async () => {
    await using node = await createNode();
    const dir = await booted(node, IPV4_FILES, '--backend=iptables');
    assert.match(await runBoot(node, dir, 'CHAIN=.*'), /CHAIN is not the name of a chain/);
  });

  it('is no evidence for --backend=auto', { skip: NO_NFTABLES }, async () => {
    await using node = await createNode();
    const dir = await booted(node, IPV4_FILES, '--backend=nftables');
    await runBoot(node, dir);
    await node.iptables('-N', 'KUBE-SERVICES');
    for (const reason of [/kube-proxy uses iptables/, /rules of the agent are there/]) {
      const { code, stderr } = await node.agent('--once', `--state-dir=${dir}`);
      assert.equal(code, 0, stderr);
      assert.match(stderr, reason);
    }
  });

  it('is a unit that systemd takes', { skip: NO_SYSTEMD }, async () => {
    await using node = await createNode();
    const unit = join(node.dir, 'ip-masq-agent-boot.service');
    const text = await readFile(UNIT, 'utf8');
    await writeFile(unit, text.replace('/usr/local/sbin/ip-masq-agent-boot', SCRIPT));
    const { code, stdout, stderr } = await node.box.run('systemd-analyze', ['verify', '--man=no', unit]);
    assert.deepEqual([code, stdout + stderr], [0, '']);
  });
});
