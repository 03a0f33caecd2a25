import assert from 'node:assert/strict';
import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { it } from 'node:test';
import { temporaryDirectory } from '../lab/volume.ts';
import { BINARY, createNode } from './support.ts';

it('an agent whose compiled code is damaged keeps the rules as any other, and says at --v=3 why it starts slower', async () => {
  await using dir = await temporaryDirectory();
  const damaged = join(dir.path, 'ip-masq-agent');
  for (const name of ['ip-masq-agent', 'koffi.node', 'package.json'])
    await copyFile(join(dirname(BINARY), name), join(dir.path, name));
  const bundle = await readFile(`${BINARY}.bundle`);
  bundle.fill(1, Math.round((bundle.indexOf(0) + bundle.length) / 2), bundle.length - 8);
  await writeFile(`${damaged}.bundle`, bundle);
  for (const [binary, said] of [
    [damaged, true],
    [BINARY, false],
  ] as const) {
    await using node = await createNode(binary);
    await node.volume({ 'ip-masq-a': 'nonMasqueradeCIDRs: [10.0.0.0/8]' });
    const { code, stderr } = await node.agent('--once', '--v=3', '--backend=iptables');
    assert.equal(code, 0, stderr);
    assert.equal(stderr.includes('"started slower: V8 refuses the compiled code'), said);
    assert.match((await node.chain()).join('\n'), /-d 10\.0\.0\.0\/8 .* -j RETURN/);
  }
});
