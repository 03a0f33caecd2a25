import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { BINARY, createNode, iptables, type NodeLab } from './support.ts';

const CLOUD = 'nonMasqueradeCIDRs:\n  - 10.0.0.0/8\n  - "fd00::/8"\n';
const OPERATOR = 'masqueradeCIDRs: [10.20.0.0/16]\n';
const JUMP =
  '-A POSTROUTING -m comment --comment "ip-masq-agent: ensure nat POSTROUTING directs all non-LOCAL destination traffic to our custom IP-MASQ-AGENT chain" -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT';
const rule = (text: string) => `-A IP-MASQ-AGENT ${text}`;
const comment = (text: string) => `-m comment --comment "ip-masq-agent: ${text}"`;
const LAST = rule(
  `${comment('everything else is masqueraded (must be last in chain)')} -j MASQUERADE --random-fully`,
);
const LINK_LOCAL = rule(
  `-d 169.254.0.0/16 ${comment('not masqueraded (default, RFC 3927)')} -j RETURN  # built in (RFC 3927)`,
);
const EXCEPTION = rule(
  `-d 10.20.0.0/16 ${comment('masqueraded (from ip-masq-operator)')} -j MASQUERADE --random-fully  # ip-masq-operator:1:19`,
);
const INSIDE = rule(
  `-d 10.0.0.0/8 ${comment('not masqueraded (from ip-masq-cloud)')} -j RETURN  # ip-masq-cloud:2:5`,
);

for (const mode of ['nft', 'legacy'] as const) {
  describe(`diff, ${mode}`, () => {
    const FLAGS = ['--enable-ipv6', `--iptables-mode=${mode}`];
    const where = (family: string) => `${family}, iptables 1.8.9 (${mode})`;

    it('shows on a new node all that a sync would make, in its order, and makes nothing', async () => {
      await using node = await nodeWith({ 'ip-masq-cloud': CLOUD, 'ip-masq-operator': OPERATOR });
      const before = await node.kernel();
      const { code, stdout, stderr } = await node.agent('diff', ...FLAGS);
      assert.equal(await node.kernel(), before);
      assert.deepEqual([code, stderr], [4, '']);
      assert.equal(
        versionless(stdout),
        versionless(
          [
            `${where('IPv4')}: no readable chain, jump missing`,
            ...[JUMP, LINK_LOCAL, EXCEPTION, INSIDE, LAST].map((text) => `+ ${text}`),
            'IPv4: the agent masquerades nothing now, because its chain does not exist',
            `${where('IPv6')}: no readable chain, jump missing`,
            `+ ${JUMP}`,
            `+ ${rule(`-d fe80::/10 ${comment('not masqueraded (default, RFC 4291)')} -j RETURN  # built in (RFC 4291)`)}`,
            `+ ${rule(`-d fd00::/8 ${comment('not masqueraded (from ip-masq-cloud)')} -j RETURN  # ip-masq-cloud:3:5`)}`,
            `+ ${LAST}`,
            'IPv6: the agent masquerades nothing now, because its chain does not exist',
            '',
          ].join('\n'),
        ),
      );
    });

    it('says that nothing would change after a sync', async () => {
      await using node = await nodeWith({ 'ip-masq-cloud': CLOUD });
      assert.equal((await node.agent('--once', ...FLAGS)).code, 0);
      const { code, stdout } = await node.agent('diff', ...FLAGS);
      const lines = [`${where('IPv4')}: nothing to change`, `${where('IPv6')}: nothing to change`, ''];
      assert.deepEqual([code, versionless(stdout)], [0, versionless(lines.join('\n'))]);
    });

    it('shows what the config or somebody else has changed, between what stays', async () => {
      await using node = await nodeWith({ 'ip-masq-cloud': CLOUD });
      await node.agent('--once', ...FLAGS);
      await writeFile(join(node.configDir, 'ip-masq-operator'), OPERATOR);
      await iptables(node, mode, '-I', 'IP-MASQ-AGENT', '1', '-d', '192.0.2.1', '-j', 'RETURN');
      const { code, stdout } = await node.agent('diff', ...FLAGS);
      assert.equal(code, 4);
      assert.equal(
        versionless(stdout),
        versionless(
          [
            `${where('IPv4')}: rules differ`,
            `  ${JUMP}`,
            `- ${rule('-d 192.0.2.1/32 -j RETURN')}`,
            `  ${LINK_LOCAL}`,
            `+ ${EXCEPTION}`,
            `  ${INSIDE}`,
            `  ${LAST}`,
            'IPv4: the verdict changes for 65,537 addresses',
            '  10.20.0.0/16: not masqueraded → masqueraded',
            '  192.0.2.1: not masqueraded → masqueraded',
            `${where('IPv6')}: nothing to change`,
            'Connections that exist keep their source address.',
            '',
          ].join('\n'),
        ),
      );
    });

    it('shows duplicates of the jump, and an IPv6 chain that an earlier run has left', async () => {
      await using node = await nodeWith({ 'ip-masq-cloud': 'nonMasqueradeCIDRs: [10.0.0.0/8]\n' });
      await node.agent('--once', ...FLAGS);
      await iptables(node, mode, '-A', 'POSTROUTING', '-j', 'IP-MASQ-AGENT');
      const { code, stdout } = await node.agent('diff', `--iptables-mode=${mode}`);
      assert.equal(code, 4);
      assert.match(
        stdout,
        /^IPv4.*: jump outdated\n {2}-A POSTROUTING .*\n- -A POSTROUTING -j IP-MASQ-AGENT\n/m,
      );
      assert.match(
        stdout,
        /^IPv6.*: chain left over\n(?:- .*\n){3}IPv6: after a sync the agent masquerades nothing\n$/m,
      );
    });

    it('is the plan of the daemon: after a sync of what it showed, nothing is left to show', async () => {
      await using node = await nodeWith({ 'ip-masq-cloud': CLOUD, 'ip-masq-operator': OPERATOR });
      const shown = (await node.agent('diff', ...FLAGS)).stdout.match(/^\+ -A IP-MASQ-AGENT .*$/gm) ?? [];
      await node.agent('--once', ...FLAGS);
      const made = await Promise.all(
        [`iptables-${mode}`, `ip6tables-${mode}`].map(async (command) => {
          const { stdout } = await node.box.run(command, ['-t', 'nat', '-S', 'IP-MASQ-AGENT']);
          return stdout.split('\n').filter((line) => line.startsWith('-A '));
        }),
      );
      assert.deepEqual(
        shown.map((line) => line.slice(2).replace(/ {2}#.*$/, '')),
        made.flat(),
      );
    });
  });
}

describe('diff', () => {
  it('ends with exit code 3 and the frames of what is wrong with the config', async () => {
    await using node = await nodeWith({ 'ip-masq-cloud': 'nonMasqueradeCIDRs: [10.0.0.1/8]\n' });
    const { code, stdout, stderr } = await node.agent('diff');
    assert.deepEqual([code, stdout.match(/: no rules of the agent\n/g)?.length], [3, 4]);
    const [problem = '', ...frame] = stderr.split('\n');
    assert.match(problem, /^ip-masq-cloud:1:22: error: /);
    assert.deepEqual(frame.slice(0, 2), [
      ' 1 | nonMasqueradeCIDRs: [10.0.0.1/8]',
      '   |                      ^',
    ]);
    assert.match(stderr, /\nip-masq-agent: .*1 error.*\n$/);
  });

  it('reads -f instead of --config-dir, also from standard input, or says that the defaults apply', async () => {
    await using node = await nodeWith({});
    const run = (...args: string[]) =>
      node.box.run(BINARY, ['diff', `--config-dir=${node.configDir}`, ...args], { input: CLOUD });
    assert.match((await run('-f', '-', '--enable-ipv6')).stdout, /-d fd00::\/8 .*# standard input:3:5$/m);
    assert.match((await run()).stdout, /^no source in \S+: the defaults apply\n/);
    assert.equal((await run('-R')).code, 2);
  });

  it('leaves out what stays far from a change', async () => {
    const cidrs = Array.from({ length: 40 }, (_, index) => `10.${index}.0.0/16`);
    await using node = await nodeWith({ 'ip-masq-a': `nonMasqueradeCIDRs: [${cidrs.join(', ')}]\n` });
    await node.agent('--once');
    await iptables(node, 'nft', '-D', 'IP-MASQ-AGENT', '20');
    const { stdout } = await node.agent('diff');
    assert.match(stdout, /^ {2}… 17 rules that stay$/m);
    assert.match(stdout, /^ {2}… 19 rules that stay$/m);
    assert.equal(stdout.split('\n').length, 1 + 9 + 2 + 1 + 1 + 1);
  });

  it('ends with exit code 1 where no iptables is installed', async () => {
    await using node = await nodeWith({});
    const command = [BINARY, 'diff', `--config-dir=${node.configDir}`];
    const { code, stderr } = await node.box.run('env', ['PATH=/nowhere', ...command]);
    assert.equal(code, 1);
    assert.match(stderr, /^ip-masq-agent: .*install iptables/);
  });
});

async function nodeWith(files: Readonly<Record<string, string>>): Promise<NodeLab> {
  const node = await createNode();
  for (const [name, text] of Object.entries(files)) await writeFile(join(node.configDir, name), text);
  return node;
}

/** The installed iptables may be another one. */
function versionless(text: string): string {
  return text.replace(/iptables \d[\d.]*/g, 'iptables X');
}
