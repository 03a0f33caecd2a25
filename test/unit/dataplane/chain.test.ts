import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { isChainName, renderChain, secondChain } from '../../../lib/dataplane/iptables/chain.ts';
import { createTool } from '../../../lib/dataplane/iptables/tool.ts';
import { compilePolicy } from '../../../lib/policy/policy.ts';
import { mergedOf } from '../config/support.ts';
import { hostWith } from './support.ts';

const CHARS = [...'ABab09_-'];

it('the second chain has a name that fits, and that no first one can have', () => {
  const name = fc
    .string({ unit: fc.constantFrom(...CHARS), minLength: 1, maxLength: 28 })
    .filter(isChainName);
  fc.assert(
    fc.property(name, (first) => {
      const second = secondChain(first);
      assert.ok(second.length <= 28, second);
      // No first chain can have this name.
      assert.ok(!isChainName(second), second);
    }),
  );
  assert.equal(secondChain('IP-MASQ-AGENT'), 'IP-MASQ-AGENT-FROM');
});

describe('whatever the name of the config file', () => {
  const config = mergedOf({ [`ip-masq-${'x'.repeat(247)}`]: 'nonMasqueradeCIDRs: [10.0.0.0/8]' });
  const options = { chain: 'X', randomFully: true, toPorts: [] };
  const specs = renderChain(compilePolicy(config, 'IPv4'), options).map(({ spec }) => spec);

  it('a comment is no longer than the kernel takes', () => {
    const comments = specs.map((spec) => /--comment "([^"]*)"/.exec(spec)?.[1] ?? '');
    assert.equal(Math.max(...comments.map(({ length }) => length)), 255);
  });

  it('a listing is read to its end', async () => {
    let room = 0;
    const run = async (_: string, __: readonly string[], ___?: string, mostBytes = 0) => {
      room = mostBytes;
      return { code: 0, stdout: '-N X\n', stderr: '' };
    };
    await createTool({ ...hostWith({}), run }, 'IPv4', '').list('X', 'nat', 1);
    for (const spec of specs) assert.ok(`-A X ${spec}\n`.length <= room, spec);
  });
});
