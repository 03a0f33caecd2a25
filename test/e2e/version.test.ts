import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { BINARY, createNode } from './support.ts';

describe('version', () => {
  it('names the build, Node and every tool that is found', async () => {
    await using node = await createNode();
    const { code, stdout } = await node.agent('version');
    assert.equal(code, 0);
    const [head = '', ...tools] = stdout.trimEnd().split('\n');
    assert.match(head, /^ip-masq-agent \S+ \(commit [0-9a-f]{40}, Node\.js v24\.[\d.]+\)$/);
    assert.deepEqual(
      tools.map((line) => line.replace(/\d+(?:\.\d+)+/, 'X')),
      [
        '  iptables: X (nf_tables)',
        '  iptables-nft: X (nf_tables)',
        '  iptables-legacy: X (legacy)',
        '  ip6tables: X (nf_tables)',
        '  ip6tables-nft: X (nf_tables)',
        '  ip6tables-legacy: X (legacy)',
      ],
    );
  });

  it('is no failure where no tool is installed', async () => {
    await using node = await createNode();
    const { code, stdout } = await node.box.run('env', ['PATH=/nowhere', BINARY, 'version', '--output=json']);
    assert.equal(code, 0);
    const { tools } = JSON.parse(stdout);
    assert.equal(tools.length, 6);
    assert.ok(tools.every(({ version }: { version: unknown }) => version === null));
  });
});
