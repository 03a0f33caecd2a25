import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { createNode, eventually, type NodeLab } from '../e2e/support.ts';
import { IS_ROOT } from '../lab/user.ts';

/** Where build/other-releases.sh puts them. */
const RELEASES = join(import.meta.dirname, '../../bin/releases');

/** Since 1.1.2 nft keeps user data with a set on which versions before 1.0.6.1 and 1.1.4 die (kubernetes#136786). */
const VERSIONS = { bullseye: '0.9.8', bookworm: '1.0.6', trixie: '1.1.3', sid: '1.1.7' } as const;

type Release = keyof typeof VERSIONS;

const ALL = Object.keys(VERSIONS) as Release[];

const FLAGS = ['--backend=nftables', '--enable-ipv6', '--to-ports=1024-2000,4000', '--random-fully=tcp'];
const CONFIG = JSON.stringify({
  nonMasqueradeCIDRs: [
    '10.0.0.0/8',
    '192.168.0.0/16',
    '240.0.0.0/4',
    'fd00::/8',
    '2001:db8::/33',
    'ff00::/8',
  ],
  masqueradeCIDRs: ['10.1.0.0/16'],
  masqueradeFromCIDRs: ['10.244.0.0/16', 'fd00:1::/64'],
});

/** The nft of a release, which gets its scripts as files: by chroot it has no /dev/stdin. */
async function nftOf(node: NodeLab, release: Release, script: string) {
  const name = `${process.pid}-${Math.random().toString(36).slice(2)}`;
  const file = join(RELEASES, release, 'root/tmp', name);
  await writeFile(file, `${script}\n`);
  try {
    return await node.box.run(join(RELEASES, release, 'nft'), ['-f', `/tmp/${name}`]);
  } finally {
    await rm(file);
  }
}

async function once(node: NodeLab, ...flags: readonly string[]): Promise<string> {
  const { code, stderr } = await node.agent('--once', ...FLAGS, ...flags);
  assert.equal(code, 0, stderr);
  return stderr;
}

async function newNode(config = CONFIG): Promise<NodeLab> {
  const node = await createNode();
  await writeFile(join(node.configDir, 'ip-masq-x'), config);
  return node;
}

/** Both tables of the agent, as the machine's own nft lists them. */
async function tables({ run }: NodeLab): Promise<string> {
  const list = (family: string) => run('nft', 'list', 'table', family, 'ip-masq-agent');
  return `${await list('ip')}${await list('ip6')}`;
}

/** Writes the ruleset again, as nftables.service does at a stop and a start. */
async function writeAgain(node: NodeLab, release: Release): Promise<void> {
  const { code, stdout, stderr } = await nftOf(node, release, 'list ruleset');
  assert.equal(code, 0, stderr);
  const restored = await nftOf(node, release, `flush ruleset\n${stdout}`);
  assert.equal(restored.code, 0, restored.stderr);
}

/** It must not die, and what a person reads must be right. */
async function assertLists(node: NodeLab, release: Release, family: 'ip' | 'ip6'): Promise<void> {
  const { code, stdout, stderr } = await nftOf(node, release, `list table ${family} ip-masq-agent`);
  assert.equal(code, 0, stderr);
  for (const text of [
    family === 'ip' ? '240.0.0.0' : 'ff00::',
    'comment "ip-masq-agent: what the config leaves alone"',
    `${family} daddr @not-masqueraded`,
    'masquerade to :1024-2000',
  ])
    assert.ok(stdout.includes(text), `${text} in ${stdout}`);
}

describe('beside other versions of nft', {
  skip:
    IS_ROOT && ALL.every((release) => existsSync(join(RELEASES, release, 'nft')))
      ? false
      : 'they are not here',
}, () => {
  for (const release of ALL)
    describe(`${VERSIONS[release]}:`, () => {
      it('the table lists well, and after it was written again a sync makes it what it was', async () => {
        await using node = await newNode();
        await once(node);
        const fresh = await tables(node);
        for (const family of ['ip', 'ip6'] as const) await assertLists(node, release, family);
        await writeAgain(node, release);
        for (const command of [
          ['diff', ...FLAGS],
          ['explain', '--live', '8.8.8.8', ...FLAGS],
          ['render', '--live'],
        ]) {
          const { code, stderr } = await node.agent(...command);
          assert.ok(code === 0 || code === 4, stderr);
        }
        await once(node);
        assert.equal(await tables(node), fresh);
        assert.doesNotMatch(await once(node), /"found"/);
        await writeAgain(node, release);
        assert.equal((await node.agent('cleanup')).code, 0);
        assert.equal(await node.run('nft', 'list', 'tables'), '');
      });

      it('a running agent goes on, and repairs', async () => {
        await using node = await newNode();
        const agent = node.start(...FLAGS);
        await agent.logged(/"family":"IPv6".*"reason":"start"/);
        const fresh = await tables(node);
        await writeAgain(node, release);
        await eventually(
          async () => (await node.agent('diff', ...FLAGS)).code === 0 && (await tables(node)) === fresh,
          () => `the tables as they were; the log is ${agent.log()}`,
        );
        await agent.stop();
      });

      it('20,000 CIDRs are written and changed beside a set of it, and no program is started', async () => {
        const cidrs = Array.from({ length: 20_000 }, (_, n) => `10.${n >> 7}.${(2 * n) & 255}.0/25`);
        const config = (count: number) => JSON.stringify({ nonMasqueradeCIDRs: cidrs.slice(0, count) });
        await using node = await newNode(config(19_999));
        const made = await nftOf(
          node,
          release,
          'add table ip t\nadd set ip t s { type ipv4_addr; flags interval; }',
        );
        assert.equal(made.code, 0, made.stderr);
        const alone = FLAGS.filter((flag) => flag !== '--enable-ipv6');
        const many = ['--cidr-limit=20000', '--cidr-limit-max=20000'];
        const bin = join(node.dir, 'bin');
        await mkdir(bin);
        for (const count of [19_999, 20_000]) {
          await writeFile(join(node.configDir, 'ip-masq-x'), config(count));
          // Whatever it wanted to start, it would not find.
          const { code, stderr } = await node.box.run('env', [
            `PATH=${bin}`,
            join(import.meta.dirname, '../../bin/ip-masq-agent'),
            '--once',
            `--config-dir=${node.configDir}`,
            '--metrics-bind-address=',
            '--termination-log=none',
            ...alone,
            ...many,
          ]);
          assert.equal(code, 0, stderr);
          assert.doesNotMatch(stderr, /"level":"(?:warn|error)"/);
        }
        assert.equal((await node.agent('diff', ...alone, ...many)).code, 0);
      });

      it('loads what render prints, which is then what the agent writes', {
        skip: release === 'bullseye' && 'it knows no comments of tables',
      }, async () => {
        await using node = await newNode();
        const { stdout } = await node.agent('render', '--format=nftables', ...FLAGS);
        const loaded = await nftOf(node, release, stdout);
        assert.equal(loaded.code, 0, loaded.stderr);
        const { code, stdout: shown } = await node.agent('diff', ...FLAGS);
        // User data that only a newer nft keeps.
        const lines = shown.split('\n').filter((line) => /^[+-] /.test(line));
        assert.equal(code, lines.length === 0 ? 0 : 4);
        for (const line of lines.filter((one) => one.startsWith('-'))) assert.match(line, / user data /);
      });
    });
});
