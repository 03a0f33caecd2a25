import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { call, runCall, runCalls } from '../bench/calls.ts';
import { type BenchNode, createNode, NODE_KINDS } from '../bench/node.ts';
import { createRecorder } from '../bench/record.ts';
import { CHAIN, prefixesOf } from '../bench/sources.ts';
import { appendJump, ensureAndRestore, readChainAndJump, STAND_IN_CHAIN } from '../bench/stand-in.ts';
import { countWrites } from '../bench/writes.ts';
import { watchGenerations } from '../lab/generations.ts';
import { succeed } from '../lab/run.ts';

const KINDS = NODE_KINDS.filter(({ foreignRules }) => foreignRules === 0);
const FAMILIES = 'both';

async function listed({ kind, box }: BenchNode, tool: string, chain: string): Promise<readonly string[]> {
  const listing = await succeed(box.run(`${tool}-${kind.mode}`, ['-t', 'nat', '-S', chain]));
  return listing.split('\n').filter((line) => line.startsWith('-A'));
}

describe('what the kernel announces', () => {
  it('is each transaction of nf_tables with the process that made it, and no reading', async () => {
    await using node = await createNode({ name: 'nft', mode: 'nft', foreignRules: 0 });
    await using generations = await watchGenerations(node.box);
    const run = (...args: readonly string[]) => succeed(node.box.run('iptables-nft', ['-t', 'nat', ...args]));
    const before = performance.now();
    await run('-S');
    await run('-N', 'A');
    await run('-A', 'A', '-j', 'RETURN');
    const [first, second] = [await generations.next(), await generations.next()];
    assert.deepEqual([first.process, second.process], ['iptables-nft', 'iptables-nft']);
    assert.ok(before < first.at && first.at <= second.at && second.at < performance.now());
    assert.deepEqual(generations.drain(), []);
  });
});

for (const kind of KINDS) {
  describe(`in ${kind.mode} mode`, () => {
    it('the stand-in keeps chain and jump as the older agents do, and rewrites them each time', async () => {
      await using node = await createNode(kind);
      await using generations = await watchGenerations(node.box);
      await runCalls(node.box, appendJump(kind, FAMILIES));
      const standIn = ensureAndRestore(kind, FAMILIES);
      await runCalls(node.box, standIn, 2);
      for (const [tool, family] of [
        ['iptables', 'IPv4'],
        ['ip6tables', 'IPv6'],
      ] as const) {
        const jumps = (await listed(node, tool, 'POSTROUTING')).filter((line) =>
          line.includes(STAND_IN_CHAIN),
        );
        assert.equal(jumps.length, 1);
        const rules = await listed(node, tool, STAND_IN_CHAIN);
        assert.equal(rules.length, prefixesOf(0, family).length + 2);
        assert.match(rules.at(-1) ?? '', /MASQUERADE$/);
      }
      const again = () => runCalls(node.box, standIn);
      assert.equal(await countWrites(node, STAND_IN_CHAIN, generations, again), 2);
    });

    it('reading chain and jump writes nothing', async () => {
      await using node = await createNode(kind);
      await using generations = await watchGenerations(node.box);
      await runCalls(node.box, [
        ...appendJump(kind, FAMILIES),
        ...ensureAndRestore(kind, FAMILIES),
        ...['iptables', 'ip6tables'].map((tool) => call(`${tool}-${kind.mode}`, '-t', 'nat', '-N', CHAIN)),
      ]);
      const read = () => runCalls(node.box, readChainAndJump(kind, FAMILIES));
      assert.equal(await countWrites(node, STAND_IN_CHAIN, generations, read), 0);
    });
  });
}

describe('a script of tool calls', () => {
  it('hands each program its input, and tells what each round took', async () => {
    await using node = await createNode({ name: 'nft', mode: 'nft', foreignRules: 0 });
    const load = { command: ['iptables-nft-restore', '--noflush'], input: '*nat\n:A - [0:0]\nCOMMIT\n' };
    const rounds = await runCalls(node.box, [load], 3);
    assert.equal(rounds.length, 3);
    for (const { took, cpu } of rounds) assert.ok(cpu > 0 && took > 0);
    assert.deepEqual(await listed(node, 'iptables', 'A'), []);
  });

  it('fails where a program does', async () => {
    await using node = await createNode({ name: 'nft', mode: 'nft', foreignRules: 0 });
    await assert.rejects(runCall(node.box, call('iptables-nft', '--no-such-option')), /iptables-nft/);
  });
});

describe('the recorder', () => {
  it('notes down each call with its input, and the tool does its work all the same', async () => {
    await using node = await createNode({ name: 'nft', mode: 'nft', foreignRules: 0 });
    const input = '*nat\n:A - [0:0]\n-A A -m comment --comment "two words" -j RETURN\nCOMMIT\n';
    await using recorder = await createRecorder();
    const path = `PATH=${recorder.dir}:${node.box.env['PATH']}`;
    const run = (...args: readonly string[]) => succeed(node.box.run('env', [path, ...args], { input }));
    await run('iptables-nft-restore', '--noflush');
    assert.match(await run('iptables-nft', '-t', 'nat', '-S', 'A'), /two words/);
    const calls = await recorder.take();
    assert.deepEqual(calls, [
      { command: ['iptables-nft-restore', '--noflush'], input },
      { command: ['iptables-nft', '-t', 'nat', '-S', 'A'], input },
    ]);
  });
});
