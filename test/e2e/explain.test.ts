import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { createNode, type NodeLab } from './support.ts';

const CLOUD = 'nonMasqueradeCIDRs: [10.0.0.0/8, "fd00::/8"]\n';
const OPERATOR = 'masqueradeCIDRs: [10.20.0.0/16]\nnonMasqueradeCIDRs: [10.20.30.0/24]\n';

describe('explain --live', () => {
  const LIVE = ['explain', '--live', '--enable-ipv6', '--iptables-mode=nft'];

  it('explains the address to which connections go instead, once for each verdict', async () => {
    await using node = await configured();
    await node.agent('--once', '--enable-ipv6', '--iptables-mode=nft');
    const backends = ['10.3.4.5', '10.20.1.1', '10.3.4.6'];
    await node.run('ip', ...'route add 10.0.0.0/8 dev lo'.split(' '));
    for (const [port, backend] of backends.entries()) {
      const match = ['-d', '10.96.0.10', '-p', 'udp', '--dport', `${port + 1}`];
      await node.iptables('-A', 'OUTPUT', ...match, '-j', 'DNAT', '--to-destination', backend);
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

  it('has it all in JSON', async () => {
    await using node = await configured();
    await node.agent('--once', '--enable-ipv6', '--iptables-mode=nft');
    await node.iptables('-A', 'POSTROUTING', '-d', '10.1.0.0/16', '-j', 'SNAT', '--to-source', '192.0.2.9');
    const { stdout } = await node.agent(...LIVE, '--output=json', '10.1.1.1');
    const [{ live }] = JSON.parse(stdout).addresses;
    assert.deepEqual(
      [live.agrees, live.isLocal, live.state, live.verdict, live.exempting, live.unread, live.bpfLinks],
      [true, false, 'applied', 'not_masqueraded', [], [], []],
    );
    assert.match(live.rule, /^-A IP-MASQ-AGENT -d 10\.0\.0\.0\/8 .* -j RETURN$/);
    const [rule, deletion] = live.foreign[0].evidence;
    assert.equal(rule, '-A POSTROUTING -d 10.1.0.0/16 -j SNAT --to-source 192.0.2.9');
    const [, command = ''] =
      /^delete it: nft (delete rule ip nat POSTROUTING handle \d+)$/.exec(deletion) ?? [];
    await node.nft(command);
    assert.doesNotMatch(await node.iptables('-S', 'POSTROUTING'), /SNAT/);
  });
});

async function configured(): Promise<NodeLab> {
  const node = await createNode();
  await writeFile(join(node.configDir, 'ip-masq-cloud'), CLOUD);
  await writeFile(join(node.configDir, 'ip-masq-operator'), OPERATOR);
  return node;
}
