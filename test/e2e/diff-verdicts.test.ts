import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { createNode, type NodeLab } from './support.ts';

const CONFIG = 'nonMasqueradeCIDRs: [10.0.0.0/8, 240.0.0.0/4]\n';

const comment = (text: string) => `-m comment --comment "ip-masq-agent: ${text}"`;
const ENSURE =
  'ensure nat POSTROUTING directs all non-LOCAL destination traffic to our custom IP-MASQ-AGENT chain';
const NOT_LOCAL = '-m addrtype ! --dst-type LOCAL';
const LOCAL_TRAFFIC = comment('local traffic is not subject to MASQUERADE');
const LAST = comment('outbound traffic is subject to MASQUERADE (must be last in chain)');

/** What the older agents write, with 10.0.0.0/8 and 172.16.0.0/12 inside. */
const CHAINS = {
  'the first v1': {
    jump: `${comment(ENSURE)} ${NOT_LOCAL} -j IP-MASQ-AGENT`,
    rules: ['169.254.0.0/16', '10.0.0.0/8', '172.16.0.0/12'].map(
      (cidr) =>
        `${comment('cluster-local traffic should not be subject to MASQUERADE')} ${NOT_LOCAL} -d ${cidr} -j RETURN`,
    ),
    last: `${LAST} ${NOT_LOCAL} -j MASQUERADE`,
  },
  v1: {
    jump: `${comment(ENSURE)} ${NOT_LOCAL} -j IP-MASQ-AGENT`,
    rules: ['169.254.0.0/16', '10.0.0.0/8', '172.16.0.0/12'].map(
      (cidr) => `-d ${cidr} ${LOCAL_TRAFFIC} -j RETURN`,
    ),
    last: `${LAST} -j MASQUERADE --random-fully`,
  },
  v2: {
    jump: `-m comment --comment "\\"ip-masq-agent: ${ENSURE}\\"" ${NOT_LOCAL} -j IP-MASQ-AGENT`,
    rules: ['172.16.0.0/12', '10.0.0.0/8', '169.254.0.0/16'].map(
      (cidr) => `-d ${cidr} ${LOCAL_TRAFFIC} -j RETURN`,
    ),
    last: `${LAST} -j MASQUERADE`,
  },
} as const;

const TO_CONFIG = [
  'IPv4: the verdict changes for 269,484,032 addresses',
  '  172.16.0.0/12: not masqueraded → masqueraded',
  '  240.0.0.0/4: masqueraded → not masqueraded',
  'Connections that exist keep their source address.',
];

for (const mode of ['nft', 'legacy'] as const) {
  const flag = `--iptables-mode=${mode}`;

  describe(`diff tells what happens to packets, ${mode}`, () => {
    for (const [what, { jump, rules, last }] of Object.entries(CHAINS)) {
      it(`on a node that runs ${what}`, async () => {
        await using node = await nodeWith(mode, [...rules, last], [jump]);
        const before = await node.kernel();
        const { code, stdout } = await node.agent('diff', flag);
        assert.deepEqual([code, told(stdout)], [4, TO_CONFIG]);
        assert.equal(await node.kernel(), before);
      });
    }

    it('with exactly the addresses of which it cannot be told, and the rule', async () => {
      const { jump, rules, last } = CHAINS.v1;
      const odd = [
        // Behind it, all packets to 10.0.0.0/8 get the same verdict.
        '-s 10.9.0.0/16 -d 10.1.0.0/16 -j RETURN',
        '-d 10.2.0.0/16 -m mark --mark 0x4 -j MASQUERADE',
        '-d 10.2.3.0/24 -p tcp -m tcp --dport 53 -j MASQUERADE',
        '-d 192.0.2.0/24 -o lo -j RETURN',
        '-d 198.51.100.7/32 -j SNAT --to-source 192.0.2.1-192.0.2.2',
        '-d 198.51.100.8/32 -j SNAT --to-source 192.0.2.1',
      ];
      await using node = await nodeWith(mode, [...odd, ...rules, last], [jump]);
      const { code, stdout } = await node.agent('diff', flag);
      assert.equal(code, 4);
      const untold = (index: number) => `cannot be told (-A IP-MASQ-AGENT ${odd[index]})`;
      assert.deepEqual(told(stdout), [
        'IPv4: the verdict changes for 269,484,033 addresses, and the old verdict of 65,793 addresses cannot be told',
        `  10.2.0.0/16: ${untold(1)} → not masqueraded`,
        '  172.16.0.0/12: not masqueraded → masqueraded',
        `  192.0.2.0/24: ${untold(3)} → masqueraded`,
        `  198.51.100.7: ${untold(4)} → masqueraded`,
        '  198.51.100.8: masqueraded as 192.0.2.1 → masqueraded',
        '  240.0.0.0/4: masqueraded → not masqueraded',
        'Connections that exist keep their source address.',
      ]);
    });

    it('where no rule leads to the chain', async () => {
      await using node = await nodeWith(mode, [CHAINS.v1.last], []);
      const { code, stdout } = await node.agent('diff', flag);
      const line = 'IPv4: the agent masquerades nothing now, because nothing leads packets to its chain';
      assert.deepEqual([code, told(stdout)], [4, [line]]);
    });

    it('where a foreign chain leads to the chain', async () => {
      await using node = await nodeWith(mode, [CHAINS.v1.last], ['-d 240.0.0.0/4 -j IP-MASQ-AGENT']);
      const lead = ['*nat', ':VIA - [0:0]', '-A POSTROUTING -j VIA', '-A VIA -j IP-MASQ-AGENT', 'COMMIT', ''];
      await node.box.run(`iptables-${mode}-restore`, ['--noflush'], { input: lead.join('\n') });
      const untold =
        'cannot be told (rules in other chains, or rules that iptables cannot read, may lead to IP-MASQ-AGENT)';
      const lines = told((await node.agent('diff', flag)).stdout);
      assert.equal(lines[1], `  0.0.0.0-9.255.255.255: ${untold} → masqueraded`);
      assert.ok(lines.includes('  240.0.0.0/4: masqueraded → not masqueraded'), lines.join('\n'));
    });

    it('with the chain of v1 where the agent goes to nftables', async () => {
      const { jump, rules, last } = CHAINS.v1;
      await using node = await nodeWith(mode, [...rules, last], [jump]);
      const { code, stdout } = await node.agent('diff', '--backend=nftables');
      assert.equal(code, 4);
      assert.match(
        stdout,
        new RegExp(`^IPv4, iptables \\S+ \\(${mode}\\): a start removes 5 rules of an earlier run$`, 'm'),
      );
      assert.deepEqual(told(stdout), TO_CONFIG);
    });

    it('where the chain of v1 is in the other mode, and the agent has synced before', async () => {
      const { jump, rules, last } = CHAINS.v1;
      await using node = await createNode();
      await writeFile(join(node.configDir, 'ip-masq-a'), CONFIG);
      assert.equal((await node.agent('--once', flag)).code, 0);
      await restore(node, mode === 'nft' ? 'legacy' : 'nft', [...rules, last], [jump]);
      const { code, stdout } = await node.agent('diff', flag);
      assert.equal(code, 4);
      // Either chain masquerades: 240.0.0.0/4 only that of v1, 172.16.0.0/12 only that of this agent.
      assert.deepEqual(told(stdout), [
        'IPv4: the verdict changes for 268,435,456 addresses',
        '  240.0.0.0/4: masqueraded → not masqueraded',
        'Connections that exist keep their source address.',
      ]);
    });

    it('where the family is off, and has rules of an earlier run', async () => {
      await using node = await nodeWith(mode, [], []);
      assert.equal((await node.agent('--once', '--enable-ipv6', flag)).code, 0);
      const { code, stdout } = await node.agent('diff', flag);
      assert.deepEqual([code, told(stdout)], [4, ['IPv6: after a sync the agent masquerades nothing']]);
    });
  });
}

describe('diff tells what happens to packets', () => {
  it('after a rule was added to the table of nftables', async () => {
    await using node = await createNode();
    await writeFile(join(node.configDir, 'ip-masq-a'), CONFIG);
    const flag = '--backend=nftables';
    assert.equal((await node.agent('--once', flag)).code, 0);
    const before = await node.agent('diff', flag);
    assert.deepEqual([before.code, told(before.stdout)], [0, []]);
    const table = ['ip', 'ip-masq-agent'];
    await node.box.run('nft', ['delete', 'element', ...table, 'not-masqueraded', '{', '240.0.0.0/4', '}']);
    await node.box.run('nft', ['insert', 'rule', ...table, 'postrouting', 'udp', 'dport', '53', 'return']);
    const { code, stdout } = await node.agent('diff', flag);
    assert.equal(code, 4);
    const untold = '(ip postrouting: udp dport 53 return)';
    assert.deepEqual(told(stdout).slice(1, 3), [
      `  0.0.0.0-9.255.255.255: cannot be told ${untold} → masqueraded`,
      `  11.0.0.0-169.253.255.255: cannot be told ${untold} → masqueraded`,
    ]);
    assert.ok(told(stdout).includes(`  240.0.0.0/4: cannot be told ${untold} → not masqueraded`), stdout);
  });

  it('where the table of nftables is dormant, and the log of the repair says so too', async () => {
    await using node = await createNode();
    await writeFile(join(node.configDir, 'ip-masq-a'), CONFIG);
    const flag = '--backend=nftables';
    assert.equal((await node.agent('--once', flag)).code, 0);
    await node.box.run('nft', ['add table ip ip-masq-agent { flags dormant; }']);
    const { stdout } = await node.agent('diff', flag);
    const line = 'IPv4: the agent masquerades nothing now, because nothing leads packets to its chain';
    assert.deepEqual(told(stdout), [line]);
    assert.match(stdout, /^- table flags dormant$/m);
    const { code, stderr } = await node.agent('--once', flag);
    assert.equal(code, 0);
    assert.match(stderr, /before, the agent's rules masqueraded nothing/);
    assert.equal((await node.agent('diff', flag)).code, 0);
  });
});

async function nodeWith(
  mode: 'nft' | 'legacy',
  rules: readonly string[],
  jumps: readonly string[],
): Promise<NodeLab> {
  const node = await createNode();
  await writeFile(join(node.configDir, 'ip-masq-a'), CONFIG);
  await restore(node, mode, rules, jumps);
  return node;
}

async function restore(
  node: NodeLab,
  mode: 'nft' | 'legacy',
  rules: readonly string[],
  jumps: readonly string[],
): Promise<void> {
  await node.restore(
    `iptables-${mode}-restore`,
    ':IP-MASQ-AGENT - [0:0]',
    ...rules.map((rule) => `-A IP-MASQ-AGENT ${rule}`),
    ...jumps.map((jump) => `-A POSTROUTING ${jump}`),
  );
}

/** The lines about packets: without those about rules. */
function told(stdout: string): readonly string[] {
  return stdout.split('\n').filter((line) => /^(?:IPv[46]: | {2}[0-9a-f.:]+[-/:]|Connections )/.test(line));
}
