import assert from 'node:assert/strict';
import { cp, glob, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { BINARY, besideAgent, createNode, inside, type NodeLab } from './support.ts';

/** Rules of other programs, and the file of the extension that the image of the agent does not have. */
const RULES = [
  // coolsnowwolf/lede#3366, cloudnativelabs/kube-router#775: there it is the match set.
  ['-m mark --mark 0x5 -j ACCEPT', 'mark', 'libxt_mark.so'],
  ['-d 192.0.2.1/32 -j SNAT --to-source 192.0.2.7', 'SNAT', 'libxt_SNAT.so'],
] as const;

describe('the agent in legacy mode', () => {
  for (const [rule, name, file] of RULES)
    it(`keeps its rules beside one with an extension that it lacks: ${name}`, async () => {
      await using node = await createNode();
      await node.volume({ 'ip-masq-a': inside('10.0.0.0/8') });
      await node.restore('iptables-legacy-restore', `-A POSTROUTING ${rule}`);
      const libraries = join(node.dir, 'xtables');
      for await (const path of glob('/usr/lib/*/xtables')) await cp(path, libraries, { recursive: true });
      for await (const path of glob(`lib*${file.slice(5)}`, { cwd: libraries }))
        await rm(join(libraries, path));
      await rm(join(libraries, file), { force: true });
      const agent = (...args: readonly string[]) => run(node, libraries, ...args);
      const first = await agent('--once', '--v=3');
      assert.equal(first.code, 0, first.stderr);
      const rules = await node.run('iptables-legacy', '-t', 'nat', '-S');
      assert.match(rules, /-A POSTROUTING .*-j IP-MASQ-AGENT\n/);
      assert.match(rules, /-A IP-MASQ-AGENT .*-j MASQUERADE/);
      // The foreign rule is there, and the second sync writes nothing.
      assert.equal((await agent('--once')).code, 0);
      assert.equal(await node.run('iptables-legacy', '-t', 'nat', '-S'), rules);
      const unread =
        /^ +not read: iptables-legacy, table nat, chain POSTROUTING: iptables cannot list it, .*; use an image that has the extension$/gm;
      for (const words of [['doctor'], ['explain', '--live', '8.8.8.8']]) {
        const { stdout } = await besideAgent(node, () => agent(...words));
        assert.equal(stdout.match(unread)?.length, 1, stdout);
        assert.doesNotMatch(stdout, /lists nothing|NAT here/);
      }
      assert.equal((await agent('cleanup')).code, 0);
      assert.doesNotMatch(await node.run('iptables-legacy', '-t', 'nat', '-S'), /IP-MASQ-AGENT/);
    });
});

it('doctor says that iptables cannot list a rule of nft(8), and names the rule all the same', async () => {
  await using node = await createNode();
  await node.volume({ 'ip-masq-a': inside('10.0.0.0/8') });
  assert.equal((await node.agent('--once', '--iptables-mode=nft')).code, 0);
  const rule = ['ip', 'daddr', '{ 192.0.2.1, 192.0.2.7 }', 'masquerade'];
  assert.equal((await node.box.run('nft', ['add', 'rule', 'ip', 'nat', 'POSTROUTING', ...rule])).code, 0);
  const { stdout } = await besideAgent(node, () => node.agent('doctor', '--iptables-mode=nft'));
  assert.match(stdout, /table ip nat, chain POSTROUTING \(masquerading: 1 rule\)/);
  assert.match(
    stdout,
    /^ +not read: iptables-nft, table nat, chain POSTROUTING: iptables cannot list it, because of a rule of nft\(8\) or /m,
  );
});

async function run(node: NodeLab, libraries: string, ...args: readonly string[]) {
  const flags = ['--iptables-mode=legacy', `--config-dir=${node.configDir}`];
  return await node.box.run('env', [`XTABLES_LIBDIR=${libraries}`, BINARY, ...args, ...flags]);
}
