import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { createNode, iptables, type NodeLab } from './support.ts';

const CLOUD = 'nonMasqueradeCIDRs: [10.0.0.0/8, "fd00::/8"]\n';
const OPERATOR = 'masqueradeCIDRs: [10.20.0.0/16]\nnonMasqueradeCIDRs: [10.20.30.0/24]\n';

/** What is said about where packets come from if the config says nothing. */
const ANYWHERE = { address: null, isElsewhere: false, listed: [] };

describe('explain', () => {
  it('says the verdict, the entry that decides, and those that it overrides', async () => {
    await using node = await configured();
    const { code, stdout, stderr } = await node.agent(
      'explain',
      '--enable-ipv6',
      '10.20.30.4',
      '8.8.8.8',
      'fd00::1',
    );
    assert.deepEqual([code, stderr], [0, '']);
    assert.equal(
      stdout,
      [
        '10.20.30.4 is not masqueraded: 10.20.30.0/24 of ip-masq-operator:2:22 decides',
        '  10.20.30.0/24 is 10.20.30.0 to 10.20.30.255, 256 addresses',
        '  overrides 10.20.0.0/16 of ip-masq-operator:1:19, masqueraded',
        '  overrides 10.0.0.0/8 of ip-masq-cloud:1:22, not masqueraded',
        '8.8.8.8 is masqueraded: no entry matches it',
        'fd00::1 is not masqueraded: fd00::/8 of ip-masq-cloud:1:34 decides',
        '  fd00::/8 is fd00:: to fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff, 2^120 addresses',
        '',
      ].join('\n'),
    );
  });

  it('says whose packets are meant, and what happens to those from one address', async () => {
    await using node = await limited();
    const about = async (...args: readonly string[]) => (await node.agent('explain', ...args)).stdout;
    assert.equal(
      await about('8.8.8.8', '10.1.2.3'),
      [
        '8.8.8.8 is masqueraded: no entry matches it',
        '  only for packets from 10.244.0.0/16 of ip-masq-cloud:1:23, 10.245.0.0/16 of ip-masq-cloud:1:38; packets from elsewhere are not masqueraded',
        '10.1.2.3 is not masqueraded: 10.0.0.0/8 of ip-masq-operator:1:22 decides',
        '  10.0.0.0/8 is 10.0.0.0 to 10.255.255.255, 16,777,216 addresses',
        '',
      ].join('\n'),
    );
    assert.equal(
      await about('--from=10.245.7.7', '8.8.8.8'),
      '8.8.8.8 from 10.245.7.7 is masqueraded: no entry matches it\n  masqueradeFromCIDRs lists 10.245.0.0/16 of ip-masq-cloud:1:38\n',
    );
    assert.equal(
      await about('--from=192.0.2.1', '8.8.8.8'),
      '8.8.8.8 from 192.0.2.1 is not masqueraded: packets from there are not masqueraded, whatever their destination\n  only for packets from 10.244.0.0/16 of ip-masq-cloud:1:23, 10.245.0.0/16 of ip-masq-cloud:1:38; packets from elsewhere are not masqueraded\n',
    );
    const json = JSON.parse(await about('--output=json', '--from=192.0.2.1', '8.8.8.8')).addresses[0];
    assert.deepEqual(
      [json.verdict, json.from.address, json.from.isElsewhere],
      ['not_masqueraded', '192.0.2.1', true],
    );
    assert.deepEqual(
      json.from.listed.map(({ cidr }: { cidr: string }) => cidr),
      ['10.244.0.0/16', '10.245.0.0/16'],
    );
    const { code, stderr } = await node.agent('explain', '--from=fd00::1', '8.8.8.8');
    assert.deepEqual(
      [code, /8\.8\.8\.8 and the address of --from are not of one family/.test(stderr)],
      [2, true],
    );
  });

  it('disagrees with rules about packets from other ranges, and names these', async () => {
    await using node = await limited();
    assert.equal((await node.agent('--once')).code, 0);
    await writeFile(join(node.configDir, 'ip-masq-cloud'), 'masqueradeFromCIDRs: [10.246.0.0/16]\n');
    const { code, stdout } = await node.agent('explain', '--live', '8.8.8.8');
    assert.equal(code, 4);
    assert.match(stdout, /kernel DISAGREES: its rules are about packets from 10\.244\.0\.0\/15, /);
    const known = await node.agent('explain', '--live', '--from=10.247.0.1', '8.8.8.8');
    assert.equal(known.code, 0, known.stdout);
  });

  it('says the range of the address that packets leave with, because it does not know the node', async () => {
    await using node = await multihomed();
    const { code, stdout } = await node.agent('explain', '--enable-ipv6', '8.8.8.8');
    assert.equal(code, 0);
    assert.match(stdout, /^8\.8\.8\.8 is masqueraded as the node's address in 198\.51\.100\.0\/24: /);
  });

  it('names the flag that has link-local masqueraded', async () => {
    await using node = await createNode();
    await writeFile(join(node.configDir, 'ip-masq-x'), 'nonMasqueradeCIDRs: []\nmasqLinkLocal: true\n');
    const { stdout } = await node.agent('explain', '169.254.169.254');
    assert.equal(
      stdout,
      '169.254.169.254 is masqueraded: masqLinkLocal of ip-masq-x:2:16 is true, and no entry matches it\n',
    );
    const json = await node.agent('explain', '--output=json', '169.254.169.254');
    const origin = { source: 'ip-masq-x', file: 'ip-masq-x', line: 2, column: 16 };
    assert.deepEqual(JSON.parse(json.stdout).addresses[0].flag, { value: true, origin });
  });

  it('says that IPv6 is left as it is where it is not enabled', async () => {
    await using node = await createNode();
    const { code, stdout } = await node.agent('explain', '2001:DB8::1');
    assert.equal(code, 0);
    assert.equal(
      stdout.replace(/^no source .*\n/, ''),
      '2001:db8::1 is not masqueraded by the agent: IPv6 is not enabled (--enable-ipv6), so the agent keeps no rules for it\n',
    );
  });

  it('prints JSON for programs', async () => {
    await using node = await configured();
    const { stdout } = await node.agent(
      'explain',
      '--enable-ipv6',
      '--output=json',
      '10.20.1.1',
      '2001:db8::1',
    );
    const file = (source: string, line: number, column: number) => ({ source, file: source, line, column });
    assert.deepEqual(JSON.parse(stdout).addresses, [
      {
        address: '10.20.1.1',
        verdict: 'masqueraded',
        from: ANYWHERE,
        decidedBy: { cidr: '10.20.0.0/16', verdict: 'masqueraded', origin: file('ip-masq-operator', 1, 19) },
        flag: null,
        overridden: [
          { cidr: '10.0.0.0/8', verdict: 'not_masqueraded', origin: file('ip-masq-cloud', 1, 22) },
        ],
      },
      {
        address: '2001:db8::1',
        verdict: 'masqueraded',
        from: ANYWHERE,
        decidedBy: null,
        flag: null,
        overridden: [],
      },
    ]);
  });

  const SUCH_AS = 'write an address such as 10.1.2.3 or fd00::1';
  for (const [text, remedy] of [
    ['10.0.0.0/8', 'write one address of the network, without the prefix length'],
    ['10.0.0', SUCH_AS],
    ['fe80::1%eth0', SUCH_AS],
    ['', SUCH_AS],
  ] as const) {
    it(`rejects ${JSON.stringify(text)}`, async () => {
      await using node = await createNode();
      const { code, stderr } = await node.agent('explain', text);
      assert.deepEqual([code, stderr], [2, `ip-masq-agent: "${text}" is not an IP address: ${remedy}\n`]);
    });
  }
});

for (const mode of ['nft', 'legacy'] as const) {
  describe(`explain --live, ${mode}`, () => {
    const NOTHING_LEADS = /kernel DISAGREES: nothing leads packets to the agent's chain/;
    const LIVE = ['explain', '--live', '--enable-ipv6', `--iptables-mode=${mode}`];

    it('agrees with what a sync has made, for both families, and shows the rule', async () => {
      await using node = await configured();
      await node.agent('--once', '--enable-ipv6', `--iptables-mode=${mode}`);
      const { code, stdout } = await node.agent(...LIVE, '10.20.30.4', '8.8.8.8', 'fd00::1');
      assert.equal(code, 0);
      assert.deepEqual(
        stdout.split('\n').filter((line) => line.startsWith('  kernel')),
        [
          '  kernel agrees: -A IP-MASQ-AGENT -d 10.20.30.0/24 -m comment --comment "ip-masq-agent: not masqueraded (from ip-masq-operator)" -j RETURN',
          '  kernel agrees: -A IP-MASQ-AGENT -m comment --comment "ip-masq-agent: everything else is masqueraded (must be last in chain)" -j MASQUERADE --random-fully',
          '  kernel agrees: -A IP-MASQ-AGENT -d fd00::/8 -m comment --comment "ip-masq-agent: not masqueraded (from ip-masq-cloud)" -j RETURN',
        ],
      );
    });

    it('explains the address to which connections go instead, once for each verdict', async () => {
      await using node = await configured();
      await node.agent('--once', '--enable-ipv6', `--iptables-mode=${mode}`);
      const backends = ['10.3.4.5', '10.20.1.1', '10.3.4.6'];
      await node.run('ip', ...'route add 10.0.0.0/8 dev lo'.split(' '));
      for (const [port, backend] of backends.entries()) {
        const match = ['-d', '10.96.0.10', '-p', 'udp', '--dport', `${port + 1}`];
        await iptables(node, mode, '-A', 'OUTPUT', ...match, '-j', 'DNAT', '--to-destination', backend);
        await node.run('bash', '-c', `echo > /dev/udp/10.96.0.10/${port + 1}`);
      }
      await node.run('bash', '-c', 'echo > /dev/udp/10.7.7.7/9');
      const { code, stdout } = await node.agent(...LIVE, '10.96.0.10', '10.7.7.7', '8.8.8.8');
      assert.equal(code, 0, stdout);
      const lines = stdout.split('\n').filter((line) => /^\S/.test(line));
      const to = (backend: string) =>
        `connections to 10.96.0.10 go to ${backend}, as conntrack shows; that address decides:`;
      assert.equal(lines.length, 7, stdout);
      for (const [backend, says] of [
        [lines.includes(to('10.3.4.5')) ? '10.3.4.5' : '10.3.4.6', 'not masqueraded: 10.0.0.0/8'],
        ['10.20.1.1', 'masqueraded: 10.20.0.0/16'],
      ] as const)
        assert.ok(
          lines[lines.indexOf(to(backend)) + 1]?.startsWith(`${backend} is ${says} of ip-masq-`),
          stdout,
        );
      assert.match(stdout, /^10\.7\.7\.7 is not .*\n(?: .*\n)+8\.8\.8\.8 is /m);
      assert.match(stdout, /^conntrack shows no connection to 8\.8\.8\.8\. .*endpointslices/m);
      const json = await node.agent(...LIVE, '-o', 'json', '10.96.0.10', '10.7.7.7', '8.8.8.8');
      assert.deepEqual(JSON.parse(json.stdout).unseen, ['8.8.8.8']);
    });

    it('says what the kernel does if the config is invalid, then the error, and so does diff', async () => {
      await using node = await configured();
      await node.agent('--once', '--enable-ipv6', `--iptables-mode=${mode}`);
      await writeFile(join(node.configDir, 'ip-masq-cloud'), 'nonMasqueradeCIDRs: [10.0.0.1/8]\n');
      const { code, stdout, stderr } = await node.agent(...LIVE, '10.20.30.4', '8.8.8.8', '127.0.0.1');
      assert.equal(code, 3);
      assert.match(
        stdout,
        /^10\.20\.30\.4: the config is invalid; .*\n {2}not masqueraded: -A .*10\.20\.30\.0\/24 .* RETURN\n8\.8\.8\.8: .*\n {2}masqueraded: -A .*\n {2}packets .*\n127\.0\.0\.1: .*\n {2}an address of this node, /,
      );
      assert.match(stderr, /^ip-masq-cloud:1:22: error: /);
      for (const command of [
        [...LIVE, '8.8.8.8'],
        ['diff', ...LIVE.slice(2)],
      ]) {
        const json = JSON.parse((await node.agent(...command, '-o', 'json')).stdout);
        assert.match(
          json.error,
          /^1 error in the config\nip-masq-cloud:1:22: error: "10\.0\.0\.1\/8" is not /,
        );
      }
      const diff = await node.agent('diff', ...LIVE.slice(2));
      assert.equal(diff.code, 3);
      const place = `iptables [\\d.]+ \\(${mode}\\): \\d rules of the agent\n {2}-A POSTROUTING .*\n`;
      assert.match(diff.stdout, new RegExp(`^IPv4, ${place}[^]*^IPv6, ${place}`, 'm'));
      assert.match(diff.stderr, /^ip-masq-cloud:1:22: error: /);
      assert.equal((await node.agent('explain', '10.20.30.4')).stdout, '');
    });

    it('agrees about packets from listed ranges and from elsewhere, until somebody changes the ranges', async () => {
      await using node = await limited();
      await node.agent('--once', `--iptables-mode=${mode}`);
      const live = ['explain', '--live', `--iptables-mode=${mode}`];
      for (const from of [[], ['--from=10.244.1.2'], ['--from=192.0.2.1']])
        assert.equal((await node.agent(...live, ...from, '8.8.8.8', '10.1.2.3')).code, 0, from[0]);
      await node.box.run(`iptables-${mode}`, ['-t', 'nat', '-D', 'IP-MASQ-AGENT', '1']);
      assert.equal((await node.agent(...live, '8.8.8.8')).code, 4);
      assert.equal((await node.agent(...live, '--from=10.244.1.2', '8.8.8.8')).code, 4);
      assert.equal((await node.agent(...live, '--from=10.245.1.2', '8.8.8.8')).code, 0);
    });

    it('disagrees, with exit code 4, where there is no chain or no jump, or where a rule was changed', async () => {
      await using node = await configured();
      const disagrees = async (address: string, why: RegExp) => {
        const { code, stdout } = await node.agent(...LIVE, address);
        assert.equal(code, 4);
        assert.match(stdout, why);
      };
      await disagrees(
        '10.1.1.1',
        /kernel DISAGREES: the agent's chain does not exist; is the agent running\?/,
      );
      await node.agent('--once', '--enable-ipv6', `--iptables-mode=${mode}`);
      await iptables(node, mode, '-I', 'IP-MASQ-AGENT', '1', '-d', '10.1.0.0/16', '-j', 'MASQUERADE');
      await disagrees('10.1.1.1', /kernel DISAGREES: -A IP-MASQ-AGENT -d 10\.1\.0\.0\/16 -j MASQUERADE/);
      await iptables(node, mode, '-F', 'POSTROUTING');
      await disagrees('10.2.1.1', NOTHING_LEADS);
    });

    it('disagrees where somebody has put a rule into the chain, or narrowed the jump', async () => {
      await using node = await configured();
      await node.agent('--once', '--enable-ipv6', `--iptables-mode=${mode}`);
      await iptables(node, mode, '-I', 'IP-MASQ-AGENT', '1', '-s', '10.244.0.0/16', '-j', 'MASQUERADE');
      const changed = await node.agent(...LIVE, '10.1.1.1');
      assert.equal(changed.code, 4);
      assert.match(
        changed.stdout,
        /kernel DISAGREES: the agent's rules were changed: -A IP-MASQ-AGENT -s 10\.244\.0\.0\/16 -j MASQUERADE; see/,
      );
      await iptables(node, mode, '-F', 'POSTROUTING');
      await iptables(node, mode, '-A', 'POSTROUTING', '-s', '192.0.2.1', '-j', 'IP-MASQ-AGENT');
      const narrowed = await node.agent(...LIVE, '8.8.8.8');
      assert.equal(narrowed.code, 4);
      assert.match(
        narrowed.stdout,
        /kernel DISAGREES: the agent's rules were changed: -A POSTROUTING -s 192\.0\.2\.1\/32 -j IP-MASQ-AGENT; see/,
      );
    });

    it('disagrees where rules of the agent in another dataplane or mode masquerade it, whatever its own do', async () => {
      await using node = await configured();
      await node.agent('--once', '--enable-ipv6', `--iptables-mode=${mode}`);
      const other = mode === 'nft' ? 'legacy' : 'nft';
      const stale = join(node.dir, 'stale');
      await mkdir(stale);
      await writeFile(join(stale, 'ip-masq-x'), 'nonMasqueradeCIDRs: [10.1.0.0/16]\n');
      const { stdout: rules } = await node.agent('render', `--config-dir=${stale}`);
      const restore = await node.box.run(`iptables-${other}-restore`, ['--noflush'], { input: rules });
      assert.equal(restore.code, 0);

      const { code, stdout } = await node.agent(...LIVE, '10.2.1.1', '10.1.1.1', '8.8.8.8');
      assert.equal(code, 4);
      const [masqueraded = '', inside = '', outside = ''] = stdout.split(/^(?=\S)/m);
      assert.match(
        masqueraded,
        /\n {2}the agent's own rules agree: -A .* -j RETURN\n {2}kernel DISAGREES: the agent's rules are also in iptables [\d.]+ \(\w+\), and masquerade it: -A IP-MASQ-AGENT .* -j MASQUERADE.*; see ip-masq-agent doctor\n/,
      );
      assert.match(
        inside,
        /\n {2}kernel agrees: .*\n {2}the agent's rules are also in iptables [\d.]+ \(\w+\), and do not masquerade it: -A IP-MASQ-AGENT -d 10\.1\.0\.0\/16 .* -j RETURN\n/,
      );
      assert.match(
        outside,
        /\n {2}kernel agrees: .*\n {2}the agent's rules are also in .*, and masquerade it: /,
      );
      assert.equal((await node.agent(...LIVE, '10.1.1.1', '8.8.8.8')).code, 0);

      const table = await node.agent('render', '--format=nftables', `--config-dir=${stale}`);
      assert.equal((await node.box.run('nft', ['-f', '-'], { input: table.stdout })).code, 0);
      const json = await node.agent(...LIVE, '--output=json', '10.2.1.1');
      assert.equal(json.code, 4);
      const [{ live }] = JSON.parse(json.stdout).addresses;
      assert.deepEqual([live.agrees, live.state, live.verdict], [false, 'applied', 'not_masqueraded']);
      assert.deepEqual(
        live.elsewhere.map(({ where, ...verdict }: { where: string }) => [
          where.replace(/ [\d.]+/, ''),
          { ...verdict, rule: undefined },
        ]),
        [`iptables (${other})`, 'nftables'].map((where) => [
          where,
          { state: 'applied', verdict: 'masqueraded', differs: true, rule: undefined },
        ]),
      );
    });

    it('lets no comment of a rule reach the terminal as more than text', async () => {
      await using node = await configured();
      await node.agent('--once', '--enable-ipv6', `--iptables-mode=${mode}`);
      const comment = ['-m', 'comment', '--comment', '\x1b[2J\nIPv6: forged'];
      await iptables(node, mode, '-A', 'POSTROUTING', '-d', '10.0.0.0/8', ...comment, '-j', 'MASQUERADE');
      await iptables(node, mode, '-I', 'IP-MASQ-AGENT', '1', ...comment, '-j', 'RETURN');
      for (const command of [
        LIVE.concat('10.1.1.1'),
        ['diff', ...LIVE.slice(2)],
        ['doctor', ...LIVE.slice(2)],
        ['cleanup'],
      ]) {
        const { stdout, stderr } = await node.agent(...command);
        assert.doesNotMatch(stdout + stderr, /\x1b|^IPv6: forged/m);
        assert.match(stdout + stderr, /\\x1b\[2J\\x0aIPv6: forged/);
      }
    });

    it('names a foreign rule that masquerades it nevertheless, or ends it before', async () => {
      await using node = await configured();
      await node.agent('--once', '--enable-ipv6', `--iptables-mode=${mode}`);
      await iptables(
        node,
        mode,
        '-A',
        'POSTROUTING',
        '-s',
        '172.17.0.0/16',
        '!',
        '-o',
        'docker0',
        '-j',
        'MASQUERADE',
      );
      await iptables(node, mode, '-I', 'POSTROUTING', '1', '-d', '192.0.2.0/24', '-j', 'ACCEPT');
      const { code, stdout } = await node.agent(...LIVE, '10.20.30.4', '192.0.2.1', '8.8.8.8');
      assert.equal(code, 0);
      const [inside = '', ended = '', outside = ''] = stdout.split(/^(?=\S)/m);
      assert.match(
        inside,
        /\n {2}but a rule of Docker in iptables \(\w+\) nat POSTROUTING may masquerade it:\n {4}-A POSTROUTING -s 172\.17\.0\.0\/16 ! -o docker0 -j MASQUERADE\n {4}only if: .*172\.17\.0\.0\/16.*\n {4}start dockerd /,
      );
      assert.match(
        ended,
        /\n {2}a foreign rule in iptables \(\w+\) nat POSTROUTING decides before the agent's chain:\n {4}-A POSTROUTING -d 192\.0\.2\.0\/24 -j ACCEPT\n/,
      );
      assert.doesNotMatch(outside, /Docker|foreign/);
    });

    it('says that BPF may masquerade past the rules if Cilium has made its links', async () => {
      await using node = await configured();
      await node.agent('--once', '--enable-ipv6', `--iptables-mode=${mode}`);
      const link = ['link', 'add', 'cilium_host', 'type', 'veth', 'peer', 'name', 'cilium_net'];
      assert.equal((await node.box.run('ip', link)).code, 0);
      const { code, stdout } = await node.agent(...LIVE, '10.1.1.1');
      assert.equal(code, 0);
      assert.match(
        stdout,
        /\n {2}BPF may masquerade past these rules: Cilium has made cilium_host and cilium_net; see/,
      );
    });

    it('has it all in JSON', async () => {
      await using node = await configured();
      await node.agent('--once', '--enable-ipv6', `--iptables-mode=${mode}`);
      await iptables(
        node,
        mode,
        '-A',
        'POSTROUTING',
        '-d',
        '10.1.0.0/16',
        '-j',
        'SNAT',
        '--to-source',
        '192.0.2.9',
      );
      const { stdout } = await node.agent(...LIVE, '--output=json', '10.1.1.1');
      const [{ live }] = JSON.parse(stdout).addresses;
      assert.deepEqual(
        [live.agrees, live.isLocal, live.state, live.verdict, live.endedBy, live.unread, live.bpfLinks],
        [true, false, 'applied', 'not_masqueraded', null, [], []],
      );
      assert.match(live.rule, /^-A IP-MASQ-AGENT -d 10\.0\.0\.0\/8 .* -j RETURN$/);
      assert.deepEqual(live.foreign[0].evidence, [
        '-A POSTROUTING -d 10.1.0.0/16 -j SNAT --to-source 192.0.2.9',
      ]);
    });

    it('compares the address that packets leave with, and knows those of the node', async () => {
      await using node = await multihomed();
      const live = [...LIVE, '8.8.8.8', '2001:db8:8::8'];
      assert.equal((await node.agent('--once', '--enable-ipv6', `--iptables-mode=${mode}`)).code, 0);
      const agreed = await node.agent(...live);
      assert.match(
        agreed.stdout,
        /^8\.8\.8\.8 is masqueraded as 198\.51\.100\.7: .*\n {2}198\.51\.100\.7 is the node's only address /,
      );
      assert.match(agreed.stdout, /^2001:db8:8::8 is masqueraded as 2001:db8::7: /m);
      assert.deepEqual([agreed.code, agreed.stdout.match(/kernel agrees/g)?.length], [0, 2]);
      const other = ['-R', 'IP-MASQ-AGENT', '2', '-j', 'SNAT', '--to-source', '192.0.2.1'];
      await iptables(node, mode, ...other);
      const differs = await node.agent(...live);
      assert.equal(differs.code, 4);
      assert.match(differs.stdout, /kernel DISAGREES: .* --to-source 192\.0\.2\.1\n(?:.*\n)+.*kernel agrees/);
      const [json] = JSON.parse((await node.agent(...live, '--output=json')).stdout).addresses;
      assert.deepEqual(
        [json.as.address, json.as.found, json.live.as, json.live.agrees],
        ['198.51.100.7', ['198.51.100.7'], '192.0.2.1', false],
      );
    });

    it('says of addresses of the node itself that they never meet our rules', async () => {
      await using node = await configured();
      await node.agent('--once', '--enable-ipv6', `--iptables-mode=${mode}`);
      for (const command of [
        'address add 198.51.100.7/32 dev lo',
        'address add 2001:db8::7/128 dev lo nodad',
        'route add local 203.0.113.0/24 dev lo',
        'route add local 2001:db8:1::/64 dev lo',
        'link set lo up',
      ]) {
        assert.equal((await node.box.run('ip', command.split(' '))).code, 0, command);
      }
      const { stdout } = await node.agent(
        ...LIVE,
        '198.51.100.7',
        '127.9.9.9',
        '2001:db8::7',
        '203.0.113.77',
        '2001:db8:1::77',
        '198.51.100.8',
      );
      const local = stdout.split(/^(?=\S)/m).filter((text) => text.includes('an address of this node'));
      assert.deepEqual(
        local.map((text) => text.split(' ')[0]),
        ['198.51.100.7', '127.9.9.9', '2001:db8::7', '203.0.113.77', '2001:db8:1::77'],
      );
    });
  });
}

async function configured(): Promise<NodeLab> {
  const node = await createNode();
  await writeFile(join(node.configDir, 'ip-masq-cloud'), CLOUD);
  await writeFile(join(node.configDir, 'ip-masq-operator'), OPERATOR);
  return node;
}

/** A node with addresses of two networks, of which the operator wants one. */
async function multihomed(): Promise<NodeLab> {
  const node = await createNode();
  await writeFile(
    join(node.configDir, 'ip-masq-operator'),
    'masqueradeAddresses: [{destination: 0.0.0.0/0, address: 198.51.100.0/24}, {destination: "::/0", address: "2001:db8::/64"}]\n',
  );
  for (const command of [
    'link add uplink type veth peer name router',
    'address add 192.0.2.7/24 dev uplink',
    'address add 198.51.100.7/24 dev uplink',
    'address add 2001:db8::7/64 dev uplink nodad',
    'link set uplink up',
    'link set router up',
  ])
    assert.equal((await node.box.run('ip', command.split(' '))).code, 0, command);
  return node;
}

/** A node whose cloud says whose packets are masqueraded. */
async function limited(): Promise<NodeLab> {
  const node = await createNode();
  const sources = {
    'ip-masq-cloud': 'masqueradeFromCIDRs: [10.244.0.0/16, 10.245.0.0/16, 10.245.3.0/24]\n',
    'ip-masq-operator': 'nonMasqueradeCIDRs: [10.0.0.0/8]\n',
  };
  for (const [name, text] of Object.entries(sources)) await writeFile(join(node.configDir, name), text);
  return node;
}
