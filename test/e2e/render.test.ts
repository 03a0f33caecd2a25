import assert from 'node:assert/strict';
import { readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { beforeEach, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { RENDER_FLAGS } from '../../cmd/ip-masq-agent/command-flags.ts';
import { choicesOf } from '../lab/choices.ts';
import { WITH_NETLINK } from '../lab/netlink.ts';
import { node, outDir, SOURCES, writeSources } from './render-support.ts';
import { BINARY } from './support.ts';

const IPTABLES = `# Input of iptables-restore --noflush; without --noflush, all other rules of nat are deleted.
*nat
:IP-MASQ-AGENT - [0:0]
-A IP-MASQ-AGENT -d 10.1.0.0/16 -m comment --comment "ip-masq-agent: masqueraded (from ip-masq-operator)" -j MASQUERADE --random-fully
-A IP-MASQ-AGENT -d 10.0.0.0/14 -m comment --comment "ip-masq-agent: not masqueraded (from ip-masq-cloud)" -j RETURN
-A IP-MASQ-AGENT -m comment --comment "ip-masq-agent: everything else is masqueraded (must be last in chain)" -j MASQUERADE --random-fully
-A POSTROUTING -m comment --comment "ip-masq-agent: ensure nat POSTROUTING directs all non-LOCAL destination traffic to our custom IP-MASQ-AGENT chain" -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT
COMMIT
`;

const CONFIG = `# Merged by ip-masq-agent from ip-masq-cloud, ip-masq-operator
nonMasqueradeCIDRs:
  - 10.0.0.0/14 # ip-masq-cloud:1:22
masqueradeCIDRs:
  - 10.1.0.0/16 # ip-masq-operator:1:19
masqLinkLocal: true # ip-masq-operator:2:16
`;

const FLAT = `# Merged by ip-masq-agent from ip-masq-cloud, ip-masq-operator
nonMasqueradeCIDRs:
  - 10.0.0.0/16 # ip-masq-cloud:1:22
  - 10.2.0.0/15 # ip-masq-cloud:1:22
masqLinkLocal: true # ip-masq-operator:2:16
`;

const KNOWN_TO_US =
  'ip-masq-agent: note: only this agent knows masqueradeCIDRs, other agents ignore them: --flatten writes them as nonMasqueradeCIDRs\n';

let out: string;

beforeEach(() => {
  out = join(outDir, 'ip-masq-agent');
});

describe('render prints', () => {
  for (const { what, args, text, notes = '' } of [
    { what: 'what iptables-restore reads', args: [], text: IPTABLES },
    { what: 'the same where that is asked for', args: ['--format=iptables'], text: IPTABLES },
    {
      what: 'one merged source, and says who understands it',
      args: ['--format=config'],
      text: CONFIG,
      notes: KNOWN_TO_US,
    },
    {
      what: 'one source without exceptions',
      args: ['--format=config', '--flatten'],
      text: FLAT,
    },
  ]) {
    it(what, async () => {
      const { code, stdout, stderr } = await node.agent('render', ...args);
      assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: text, stderr: notes });
    });
  }

  it('rules of both families with --enable-ipv6, and obeys the flags that shape rules', async () => {
    const { stdout } = await node.agent('render', '--enable-ipv6', '--random-fully=false', '--masq-chain=X');
    const lines = stdout.split('\n');
    assert.ok(
      lines.includes(
        '-4 -A X -d 10.1.0.0/16 -m comment --comment "ip-masq-agent: masqueraded (from ip-masq-operator)" -j MASQUERADE',
      ),
    );
    assert.ok(
      lines.includes(
        '-6 -A X -d fe80::/10 -m comment --comment "ip-masq-agent: not masqueraded (default, RFC 4291)" -j RETURN',
      ),
    );
  });

  it('the defaults where there is no source', async () => {
    await writeSources({});
    const { stdout } = await node.agent('render', '--format=config');
    assert.match(
      stdout,
      /^# Merged by ip-masq-agent from its defaults\nnonMasqueradeCIDRs:\n {2}- 10\.0\.0\.0\/8 # built in \(RFC 1918\)\n/,
    );
  });

  it('that more entries than older agents take are there', async () => {
    const list = Array.from({ length: 65 }, (_, index) => `10.${2 * index}.0.0/16`);
    await writeSources({ 'ip-masq-x': `cidrLimit: 65\nnonMasqueradeCIDRs: [${list}]\n` });
    const { code, stdout, stderr } = await node.agent('render', '--format=config');
    assert.equal(code, 0);
    assert.equal(stderr, 'ip-masq-agent: note: 65 nonMasqueradeCIDRs: older agents accept at most 64\n');
    assert.match(stdout, /\ncidrLimit: 65\n$/);
    await writeSources({ 'ip-masq-x': 'nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqueradeCIDRs: [10.0.0.1/32]\n' });
    const flags = ['--format=config', '--flatten', '--cidr-limit-max=20', '--cidr-limit=20'];
    assert.match((await node.agent('render', ...flags)).stderr, /24 .*this agent takes at most 20/);
  });

  it('whose packets are meant, and warns of readers that do not know that', async () => {
    await writeSources({
      'ip-masq-x': 'nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqueradeFromCIDRs: [10.244.0.0/16]\n',
    });
    const { code, stdout, stderr } = await node.agent('render', '--format=config');
    assert.match(stdout, /\nmasqueradeFromCIDRs:\n {2}- 10\.244\.0\.0\/16 # ip-masq-x:2:23\n/);
    assert.match(stderr, /ip-masq-x:2:23: warning: .*Cilium and win-bridge do not know masqueradeFromCIDRs/);
    const strict = await node.agent('render', '--format=config', '--strict');
    assert.deepEqual([code, strict.code, strict.stdout], [0, 3, '']);
    assert.match(strict.stderr, /ip-masq-x:2:23: error: .* do not know masqueradeFromCIDRs/);
    const rules = await node.agent('render', '--strict');
    assert.match(rules.stdout, /^:IP-MASQ-AGENT-FROM - /m);
    assert.deepEqual([rules.code, rules.stderr], [0, '']);
  });

  it('as which address packets leave, and warns of readers that do not know that', async () => {
    await writeSources({
      'ip-masq-x':
        'nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqueradeAddresses: [{destination: 0.0.0.0/0, address: 198.51.100.0/24}]\n',
    });
    for (const flags of [['--format=config'], ['--format=config', '--flatten']]) {
      const { code, stdout, stderr } = await node.agent('render', ...flags);
      assert.equal(code, 0);
      assert.match(
        stdout,
        /\nmasqueradeAddresses:\n {2}- destination: 0\.0\.0\.0\/0 # ip-masq-x:2:23\n {4}address: 198\.51\.100\.0\/24\n/,
      );
      assert.match(
        stderr,
        /ip-masq-x:2:23: warning: .*Cilium and win-bridge do not know masqueradeAddresses/,
      );
      assert.equal((await node.agent('render', ...flags, '--strict')).code, 3);
    }
  });

  it('the rules of this machine: with its address in the range, with the lowest of several, or with none', async () => {
    await writeSources({
      'ip-masq-x': 'masqueradeAddresses: [{destination: 0.0.0.0/0, address: 198.51.100.0/24}]\n',
    });
    const rendered = async (format: string) => {
      const { code, stdout, stderr } = await node.agent('render', `--format=${format}`);
      assert.equal(code, 0);
      return { sources: [...stdout.matchAll(/(?:--to-source|snat to) (\S+)/g)].map(([, to]) => to), stderr };
    };
    const none = await rendered('iptables');
    assert.deepEqual(none.sources, []);
    assert.match(none.stderr, /note: ip-masq-x:1:23: .*no address in 198\.51\.100\.0\/24/);
    const ip = async (command: string) =>
      assert.equal((await node.box.run('ip', command.split(' '))).code, 0, command);
    await ip('link add uplink type veth peer name router');
    await ip('address add 198.51.100.17/24 dev uplink');
    await ip('link set uplink up');
    await ip('link set router up');
    for (const format of ['iptables', 'nftables'])
      assert.deepEqual(await rendered(format), { sources: ['198.51.100.17'], stderr: '' });
    // A secondary address, then one of another network.
    await ip('address add 198.51.100.3/24 dev uplink');
    if (WITH_NETLINK)
      assert.deepEqual(await rendered('nftables'), { sources: ['198.51.100.17'], stderr: '' });
    await ip('address delete 198.51.100.3/24 dev uplink');
    await ip('address add 198.51.100.7/25 dev uplink');
    const several = await rendered('nftables');
    assert.deepEqual(several.sources, ['198.51.100.7']);
    assert.match(
      several.stderr,
      /several addresses in 198\.51\.100\.0\/24.*: 198\.51\.100\.7, 198\.51\.100\.17;/,
    );
    await ip('link delete uplink');
  });

  it('all of it to a reader that is slower, however much it is', async () => {
    const exceptions = Array.from({ length: 60 }, (_, index) => `"fd00:${index + 1}::1/128"`);
    await writeSources({
      'ip-masq-x': `nonMasqueradeCIDRs: ["fd00::/8"]\nmasqueradeCIDRs: [${exceptions}]\n`,
    });
    await node.agent('render', '--format=config', '--flatten', '--enable-ipv6', `--output-file=${out}`);
    const expected = await readFile(out, 'utf8');
    assert.ok(expected.length > 3 * 65_536);
    const child = node.box.spawn(
      BINARY,
      ['render', '--format=config', '--flatten', '--enable-ipv6', `--config-dir=${node.configDir}`],
      { stdio: ['ignore', 'pipe', 'ignore'] },
    );
    await delay(500);
    assert.equal(child.stdout && (await text(child.stdout)), expected);
  });

  it('nothing where the config is bad: exit code 3, and where the mistake is', async () => {
    await writeSources({ 'ip-masq-x': 'nonMasqueradeCIDRs: [10.0.0.1/8]\n' });
    const { code, stdout, stderr } = await node.agent('render');
    assert.deepEqual({ code, stdout }, { code: 3, stdout: '' });
    assert.match(stderr, /^ip-masq-x:1:22: error: /);
  });
});

describe('render writes a file', () => {
  it('once, and not again while it says the same', async () => {
    const write = () => node.agent('render', '--format=config', '--flatten', `--output-file=${out}`);
    const first = await write();
    assert.deepEqual(first, { code: 0, signal: null, stdout: '', stderr: `${out}: written\n` });
    assert.equal(await readFile(out, 'utf8'), FLAT);
    const { ino, mtimeMs } = await stat(out);
    assert.equal((await write()).stderr, `${out}: unchanged\n`);
    const again = await stat(out);
    assert.deepEqual([again.ino, again.mtimeMs], [ino, mtimeMs]);
    assert.deepEqual(await readdir(outDir), ['ip-masq-agent']);
  });

  it('of merged config only where there is a source, and says why not', async () => {
    await writeFile(out, 'old\n');
    await writeSources({});
    const write = () => node.agent('render', '--format=config', `--output-file=${out}`);
    const why = 'because there is no source: its reader uses its own defaults';
    assert.ok((await write()).stderr.endsWith(`${out}: removed, ${why}\n`));
    assert.ok((await write()).stderr.endsWith(`${out}: absent, ${why}\n`));
  });

  it('of rules even where there is no source', async () => {
    await writeSources({});
    assert.equal((await node.agent('render', `--output-file=${out}`)).code, 0);
    assert.match(await readFile(out, 'utf8'), /-d 10\.0\.0\.0\/8 .*default, RFC 1918/);
  });

  it('beside the sources, where its name is not one of a source', async () => {
    const path = join(node.configDir, 'merged');
    assert.equal((await node.agent('render', `--output-file=${path}`)).stderr, `${path}: written\n`);
  });

  it('and leaves the old one alone where the config is bad', async () => {
    await writeFile(out, 'old\n');
    await writeSources({ 'ip-masq-x': 'nonsense' });
    assert.equal((await node.agent('render', `--output-file=${out}`)).code, 3);
    assert.equal(await readFile(out, 'utf8'), 'old\n');
  });

  it('or ends with exit code 1 and says what to do', async () => {
    const path = join(node.dir, 'missing', 'x');
    const { code, stderr } = await node.agent('render', `--output-file=${path}`);
    assert.equal(code, 1);
    assert.match(stderr, /^ip-masq-agent: .*ENOENT.*\n$/);
  });
});

const MUST_BE_SET_TOGETHER = /--format=win-bridge and --input-file must be set together/;
const WOULD_BE_SOURCE = /would be a source of the next sync: write it to another directory/;

describe('wrong usage of render ends it with exit code 2, and nothing is written:', () => {
  for (const [args, says] of [
    [['--format=json'], new RegExp(`write ${choicesOf(RENDER_FLAGS.format).join(' or ')}$`, 'm')],
    [['--flatten'], /--flatten needs --format=config/],
    [['--watch'], /--watch needs --output-file/],
    [['--watch', '--output-file=x', '-f', 'x'], /takes no --filename or --recursive/],
    [['--format=win-bridge'], MUST_BE_SET_TOGETHER],
    [['--input-file=x'], MUST_BE_SET_TOGETHER],
    [['--output-file=CONFIG/ip-masq-agent'], WOULD_BE_SOURCE],
    [['--output-file=CONFIG/../config/ip-masq-agent'], WOULD_BE_SOURCE],
    [['--output-file=LINK/ip-masq-agent'], WOULD_BE_SOURCE],
    [['--config-dir=x', '-f', 'CONFIG', '--output-file=LINK/ip-masq-agent'], WOULD_BE_SOURCE],
  ] as const) {
    it(args.join(' '), async () => {
      await symlink(node.configDir, join(node.dir, 'link')).catch(() => {});
      const paths = args.map((arg) =>
        arg.replace('CONFIG', node.configDir).replace('LINK', join(node.dir, 'link')),
      );
      const { code, stdout, stderr } = await node.agent('render', ...paths);
      assert.deepEqual({ code, stdout }, { code: 2, stdout: '' });
      assert.match(stderr, says);
      assert.deepEqual((await readdir(node.configDir)).toSorted(), Object.keys(SOURCES));
    });
  }
});
