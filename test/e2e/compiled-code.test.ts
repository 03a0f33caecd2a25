import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { it } from 'node:test';
import { temporaryDirectory } from '../lab/volume.ts';
import { BINARY, createNode } from './support.ts';

it('an agent whose compiled code V8 refuses keeps the rules as any other, and says at --v=3 why it starts slower', async () => {
  await using dir = await temporaryDirectory();
  const refused = join(dir.path, 'refused');
  // A flag that V8 counts among those that change code.
  const script = `#!/bin/sh\nNODE_OPTIONS=--expose-gc exec ${BINARY} "$@"\n`;
  await writeFile(refused, script, { mode: 0o755 });
  for (const [binary, said] of [
    [refused, true],
    [BINARY, false],
  ] as const) {
    await using node = await createNode(binary);
    await node.volume({ 'ip-masq-a': 'nonMasqueradeCIDRs: [10.0.0.0/8]' });
    const { code, stderr } = await node.agent('--once', '--v=3', '--backend=iptables');
    assert.equal(code, 0, stderr);
    assert.equal(stderr.includes('"the start was slow, because V8 refuses the compiled code'), said);
    assert.match((await node.chain()).join('\n'), /-d 10\.0\.0\.0\/8 .* -j RETURN/);
  }
});
