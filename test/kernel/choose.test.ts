import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DataplaneError } from '../../lib/dataplane/error.ts';
import { Netlink, type Requests } from '../../lib/dataplane/netlink.ts';
import { dataplaneChooser } from '../../lib/dataplane/open.ts';
import type { DataplaneOptions } from '../../lib/dataplane/options.ts';
import { NetlinkError } from '../../lib/netlink/error.ts';
import { createBox } from '../lab/box.ts';
import { hostNetlink } from '../lab/netlink.ts';
import { olderAgentRules } from '../lab/older-agent.ts';
import { succeed } from '../lab/run.ts';
import { boxHost, DEFAULTS } from './support.ts';

const AUTO: DataplaneOptions = { ...DEFAULTS, backend: 'auto', mode: 'auto', families: ['IPv4'] };

/** The command that writes these lines to nat. */
const inNat = (tool: string, lines: readonly string[]) =>
  [`${tool}-restore --noflush <<'END'`, '*nat', ...lines, 'COMMIT', 'END'].join('\n');

const OWN_TABLE = 'nft add table ip ip-masq-agent; nft add chain ip ip-masq-agent postrouting';
const OWN_CHAIN = inNat('iptables-nft', olderAgentRules());
const PROXY_TABLE = 'nft add table ip6 kube-proxy';
const PROXY_CHAIN = 'iptables-nft -t nat -N KUBE-SERVICES';

/** Commands that make the node look as it does, and what to choose then. */
const NODES: readonly (readonly [node: string, setUp: readonly string[], choice: 'iptables' | 'nftables'])[] =
  [
    ['an empty node', [], 'iptables'],
    ['a node with the chain of kube-proxy', [PROXY_CHAIN], 'iptables'],
    ['a node with the table of kube-proxy', [PROXY_TABLE], 'nftables'],
    ['a node with both, because kube-proxy has switched', [PROXY_TABLE, PROXY_CHAIN], 'nftables'],
    ["a node with the agent's table alone", [OWN_TABLE], 'iptables'],
    ["a node with the agent's chain and the table of kube-proxy", [OWN_CHAIN, PROXY_TABLE], 'nftables'],
    ['a node with a POSTROUTING that iptables cannot list', [nftRule('ct mark 7')], 'iptables'],
    ['a node with a table nat that is dormant', ["nft 'add table ip nat { flags dormant; }'"], 'iptables'],
  ];

function nftRule(match: string): string {
  return `iptables-nft -t nat -S >/dev/null; iptables-nft -t nat -A POSTROUTING; nft add rule ip nat POSTROUTING ${match}`;
}

describe('--backend=auto', () => {
  for (const [node, setUp, expected] of NODES)
    it(`takes ${expected} on ${node}`, async () => {
      await using box = await createBox();
      await succeed(box.run('sh', ['-ec', setUp.join('\n')]));
      await using asking = await hostNetlink(box);
      const before = await succeed(box.run('nft', ['list', 'ruleset']));
      const { iptables, reason } = await dataplaneChooser(AUTO, boxHost(box, asking.netlink).host)();
      assert.equal(iptables === undefined ? 'nftables' : 'iptables', expected);
      assert.match(reason, /^kube-proxy (?:uses|does not use) nftables/);
      assert.equal(await succeed(box.run('nft', ['list', 'ruleset'])), before);
    });

  it('asks again each time, and returns the same object for the same answer', async () => {
    await using box = await createBox();
    await using asking = await hostNetlink(box);
    const { host, commands } = boxHost(box, asking.netlink);
    const choose = dataplaneChooser(AUTO, host);
    const nft = (...args: readonly string[]) => succeed(box.run('nft', args));
    const iptables = await choose();
    await nft('add', 'table', 'ip', 'kube-proxy');
    const nftables = await choose();
    const { length } = commands;
    assert.notEqual(nftables, iptables);
    for (const [change, expected] of [
      ['add', nftables],
      ['delete', iptables],
      ['add', nftables],
    ] as const) {
      await nft(change, 'table', 'ip', 'kube-proxy');
      assert.equal(await choose(), expected);
      assert.equal(await choose(), expected);
    }
    assert.equal(commands.length, length);
  });

  it('takes nftables if no iptables is installed, and asks for it once', async () => {
    await using box = await createBox();
    await using asking = await hostNetlink(box);
    const { host } = boxHost(box, asking.netlink);
    const commands: string[] = [];
    const run = async (file: string) => {
      commands.push(file);
      throw new DataplaneError('missing', `${file} is not installed`, '');
    };
    const choose = dataplaneChooser(AUTO, { ...host, run });
    const { name, reason } = await choose();
    assert.equal(name, 'nftables');
    assert.match(reason, /iptables does not work here: no iptables of either mode is installed/);
    const { length } = commands;
    assert.equal((await choose()).reason, reason);
    assert.equal(commands.length, length);
  });

  it('keeps its answer for as long as the kernel has none, and without one tries again', async () => {
    await using box = await createBox();
    let failure: NetlinkError | undefined;
    let requests: Requests | undefined;
    const sockets = {
      openRequests: () => {
        if (requests !== undefined) return requests;
        throw failure ?? new NetlinkError('failed', 'no memory', 'ENOBUFS');
      },
      openWatch: () => assert.fail('nothing is watched here'),
    };
    const { host } = boxHost(box, new Netlink(sockets, () => {}));
    const choose = dataplaneChooser(AUTO, host);
    await assert.rejects(choose(), { failure: 'exhausted' });
    failure = new NetlinkError('failed', 'no subsystem', 'EINVAL');
    const chosen = await choose();
    assert.match(chosen.reason, /^nf_tables cannot be asked about kube-proxy: no subsystem; /);
    failure = undefined;
    assert.equal(await choose(), chosen);
    const nothing = async () => undefined;
    requests = { table: nothing, chain: nothing } as unknown as Requests;
    assert.match((await choose()).reason, /^kube-proxy does not use nftables; /);
  });

  for (const backend of ['iptables', 'nftables'] as const)
    it(`is not asked for by --backend=${backend}`, async () => {
      await using box = await createBox();
      await using asking = await hostNetlink(box);
      if (backend === 'iptables') await succeed(box.run('nft', ['add', 'table', 'ip', 'kube-proxy']));
      const options = { ...AUTO, backend };
      const dataplane = await dataplaneChooser(options, boxHost(box, asking.netlink).host)();
      assert.equal(dataplane.iptables === undefined ? 'nftables' : 'iptables', backend);
    });
});
