import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DataplaneError } from '../../../../lib/dataplane/error.ts';
import { createNftReader } from '../../../../lib/dataplane/foreign/nftables.ts';
import { readNode } from '../../../../lib/dataplane/foreign/node.ts';
import type { Host, ToolResult } from '../../../../lib/dataplane/host.ts';
import { OWN } from './support.ts';

/** A machine whose tools answer from a table; whatever is not in it is not installed. */
function fakeHost(answers: Readonly<Record<string, Partial<ToolResult>>>, commands: string[] = []): Host {
  return {
    run: async (file, args) => {
      const command = [file, ...args].join(' ');
      commands.push(command);
      const answer = answers[command] ?? answers[file];
      if (answer === undefined) throw new DataplaneError('missing', `${file} is not installed`, 'install it');
      return { code: 0, stdout: '', stderr: '', ...answer };
    },
    readText: async () => '',
  };
}

const nftables = (...objects: readonly unknown[]) => ({ stdout: JSON.stringify({ nftables: objects }) });
const base = (family: string, table: string, name: string) => ({
  chain: { family, table, name, handle: 1, type: 'nat', hook: 'postrouting', prio: 100, policy: 'accept' },
});
const rule = (chain: string, ...expr: readonly unknown[]) => ({ rule: { chain, expr } });

describe('what nft says of base chains', () => {
  it('is taken from those of nat at postrouting, whatever else it prints', async () => {
    const host = fakeHost({
      nft: nftables(
        { metainfo: { version: '1.0.6' } },
        { chain: { family: 'ip', table: 'nat', name: 'KUBE-SERVICES', handle: 1 } },
        { chain: { family: 'ip', table: 'f', name: 'x', type: 'filter', hook: 'postrouting' } },
        { chain: { family: 'ip', table: 'n', name: 'x', type: 'nat', hook: 'prerouting' } },
        { chain: { type: 'nat', hook: 'postrouting' } },
        null,
        base('inet', 'site', 'post'),
      ),
    });
    assert.deepEqual(await createNftReader(host, OWN).look(), {
      kind: 'read',
      baseChains: [{ family: 'inet', table: 'site', chain: 'post' }],
    });
  });

  for (const [name, answers] of [
    ['it is not installed', {}],
    ['it has no JSON', { nft: { code: 1, stderr: 'Error: JSON support not compiled-in' } }],
    ['the kernel has no nf_tables', { nft: { code: 1, stderr: 'netlink: Error: Protocol not supported' } }],
    ['it prints something else', { nft: { stdout: 'table ip nat' } }],
  ] as const) {
    it(`is unavailable where ${name}`, async () => {
      const found = await createNftReader(fakeHost(answers), OWN).look();
      assert.equal(found.kind, 'unavailable');
    });
  }

  it('is an error with a remedy where the kernel refuses', async () => {
    const stderr = 'Operation not permitted (you must be root)\nnetlink: Error: cache initialization failed';
    await assert.rejects(createNftReader(fakeHost({ nft: { code: 1, stderr } }), OWN).look(), {
      failure: 'refused',
      remedy: /NET_ADMIN/,
    });
  });
});

describe('a chain of nftables', () => {
  it('is read once, with what it leads to and the sets that it needs', async () => {
    const commands: string[] = [];
    const daddr = { payload: { protocol: 'ip', field: 'daddr' } };
    const host = fakeHost(
      {
        'nft -j list chain inet t post': nftables(
          base('inet', 't', 'post'),
          rule('post', { match: { op: '==', left: daddr, right: '@s' } }, { accept: null }),
          rule('post', { jump: { target: 'x' } }),
          rule('post', { goto: { target: 'x' } }),
          rule('post', { jump: { target: 'gone' } }),
          rule('post', { jump: { target: 'no name; add table ip x' } }),
        ),
        'nft -j list chain inet t x': nftables(rule('x', { masquerade: null })),
        'nft -j list set inet t s': nftables({ set: { name: 's' } }),
        nft: { code: 1, stderr: 'Error: No such file or directory' },
      },
      commands,
    );
    const reader = createNftReader(host, OWN);
    const chain = { family: 'inet', table: 't', chain: 'post' };
    const [four, six] = [await reader.read(chain, 'IPv4'), await reader.read(chain, 'IPv6')];
    assert.deepEqual([...(four?.chains.keys() ?? [])], ['post', 'x']);
    assert.deepEqual(six?.unread, ['gone', 'no name; add table ip x']);
    assert.equal(four?.where, 'nftables inet t post');
    assert.deepEqual(commands, [
      'nft -j list chain inet t post',
      'nft -j list set inet t s',
      'nft -j list chain inet t x',
      'nft -j list chain inet t gone',
    ]);
  });

  it('is none where it has gone, or is of the other family', async () => {
    const reader = createNftReader(
      fakeHost({ nft: { code: 1, stderr: 'Error: No such file or directory' } }),
      OWN,
    );
    assert.equal(await reader.read({ family: 'ip', table: 't', chain: 'p' }, 'IPv4'), undefined);
    assert.equal(await reader.read({ family: 'ip', table: 't', chain: 'p' }, 'IPv6'), undefined);
  });
});

describe('a node', () => {
  const listing = { stdout: '-P POSTROUTING ACCEPT\n-A POSTROUTING -j MASQUERADE\n' };

  it('without nft is read by iptables, and says what it lacks', async () => {
    const host = fakeHost({ 'iptables-nft': listing });
    const iptables = { mode: 'nft', suffix: '-nft' } as const;
    const { baseChains, unread } = await readNode(host, { families: ['IPv4'], ownChain: OWN, iptables });
    assert.deepEqual(
      baseChains.map(({ where }) => where),
      ['iptables (nft) nat POSTROUTING'],
    );
    assert.deepEqual(unread, ['nft is not installed']);
  });

  it('without iptables is read by nft', async () => {
    const host = fakeHost({
      'nft -j list chains': nftables(base('ip', 'nat', 'POSTROUTING')),
      'nft -j list chain ip nat POSTROUTING': nftables(
        rule('POSTROUTING', { jump: { target: OWN } }),
        rule('POSTROUTING', { masquerade: null }),
      ),
    });
    const { baseChains, unread } = await readNode(host, {
      families: ['IPv4', 'IPv6'],
      ownChain: OWN,
      iptables: undefined,
    });
    assert.deepEqual(
      baseChains.map(({ where }) => where),
      ['nftables ip nat POSTROUTING'],
    );
    assert.deepEqual(
      baseChains.flatMap(({ chains }) => [...chains.values()].flat().map(({ outcome }) => outcome.kind)),
      ['ours', 'masquerades'],
    );
    assert.deepEqual(unread, []);
  });
});
