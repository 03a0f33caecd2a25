import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { openNftables } from '../../lib/dataplane/nftables/nftables.ts';
import { openDataplane } from '../../lib/dataplane/open.ts';
import type { InvalidPackets } from '../../lib/dataplane/options.ts';
import { invalidPacketFindings, kubeProxyDropsInvalid } from '../../lib/doctor/invalid-packets.ts';
import { createBox } from '../lab/box.ts';
import { hostNetlink, WITH_NETLINK } from '../lab/netlink.ts';
import { succeed } from '../lab/run.ts';
import { BOX_KINDS, boxHost, CHAIN, FAMILIES, type Family, MODES, policyOf, syncOnce } from './support.ts';

const OPTIONS = { chain: CHAIN, randomFully: true, toPorts: [] };
const AUTO = { ...OPTIONS, backend: 'auto', mode: 'auto' } as const;

const WORDS = {
  IPv4: { ip: 'ip', iptables: 'iptables', inside: ['10.0.0.0/8', '172.16.0.0/12'], pods: '10.244.0.0/16' },
  IPv6: { ip: 'ip6', iptables: 'ip6tables', inside: ['fd00::/8', 'fc00::/8'], pods: 'fd00:244::/64' },
} as const;

async function createLab(family: Family) {
  await using stack = new AsyncDisposableStack();
  const box = stack.use(await createBox(BOX_KINDS[0]));
  const { netlink } = stack.use(await hostNetlink(box));
  const { host } = boxHost(box, netlink);
  const { ip, inside, pods } = WORDS[family];
  const table = `${ip} ip-masq-agent`;
  const sh = (script: string) => succeed(box.run('sh', ['-ec', script]));
  const policy = (count: number, from: readonly string[] = [pods]) => {
    const config = { nonMasqueradeCIDRs: inside.slice(0, count), masqueradeFromCIDRs: from };
    return policyOf(family, { 'ip-masq-a': JSON.stringify(config) });
  };
  const owned = stack.move();
  return {
    table,
    policy,
    sh,
    open: (invalidPackets?: InvalidPackets) =>
      openNftables({ ...OPTIONS, ...(invalidPackets && { invalidPackets }) }, host),
    list: () => sh(`nft list table ${table}`),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The lines of a listing, whatever the order of the chains. */
function linesOf(listing: string): readonly string[] {
  return listing.split('\n').toSorted();
}

for (const family of WITH_NETLINK ? FAMILIES : []) {
  describe(`the chain of packets that conntrack refuses, ${family}`, () => {
    it('is repaired after others have changed it, and removed with all else', async () => {
      await using lab = await createLab(family);
      const { table } = lab;
      const dataplane = await lab.open('drop');
      await syncOnce(dataplane, lab.policy(1));
      assert.equal(await syncOnce(dataplane, lab.policy(1)), undefined);
      const before = linesOf(await lab.list());
      const chain = `${table} postrouting-invalid`;
      for (const script of [
        `nft flush chain ${chain}`,
        `nft delete chain ${chain}`,
        `nft insert rule ${chain} accept`,
        `nft delete chain ${chain}; nft 'add chain ${chain} { type filter hook postrouting priority 0; policy drop; }'`,
        `nft delete chain ${table} postrouting`,
        `nft flush chain ${table} postrouting; nft flush chain ${chain}`,
        `nft delete table ${table}`,
      ]) {
        await lab.sh(script);
        assert.ok(await syncOnce(dataplane, lab.policy(1)), script);
        assert.equal(await syncOnce(dataplane, lab.policy(1)), undefined, script);
        assert.deepEqual(linesOf(await lab.list()), before, script);
      }
      await (await dataplane.observe(family)).planRemoval()?.apply();
      assert.equal(await lab.sh('nft list tables'), '');
    });

    it('comes and goes with the flag, and without it the table is what it is without the flag', async () => {
      await using lab = await createLab(family);
      await syncOnce(await lab.open(), lab.policy(1));
      const without = await lab.list();
      assert.doesNotMatch(without, /invalid/);
      // If the chain comes or goes, the table is made again.
      for (const [value, remakes] of [
        ['count', true],
        ['off', true],
        ['drop', true],
        ['count', false],
        ['off', true],
      ] as const) {
        const plan = await syncOnce(await lab.open(value), lab.policy(1));
        assert.deepEqual([plan?.found, plan?.remakes], [['rules differ'], remakes], value);
        const listing = await lab.list();
        if (value === 'off') assert.equal(listing, without);
        else assert.match(listing, value === 'drop' ? /bytes 0 drop comment/ : /bytes 0 comment/);
      }
    });

    it('is known by what it does, and changes no verdict', async () => {
      await using lab = await createLab(family);
      const known = { off: undefined, count: 'counted', drop: 'dropped' };
      for (const value of ['off', 'count', 'drop'] as const) {
        const dataplane = await lab.open(value);
        await syncOnce(dataplane, lab.policy(1));
        const { state, invalid, ranges } = (await dataplane.observe(family)).verdicts();
        assert.deepEqual([state, invalid], ['applied', known[value]]);
        assert.ok(ranges.every(({ verdict }) => verdict !== undefined));
      }
      await lab.sh(`nft insert rule ${lab.table} postrouting-invalid drop`);
      const { ranges } = (await (await lab.open('drop')).observe(family)).verdicts();
      assert.ok(ranges.some(({ verdict }) => verdict === undefined));
    });
  });
}

describe('packets that conntrack refuses, in iptables', () => {
  it('are not dropped, of which the agent warns if nobody named iptables', {
    skip: !WITH_NETLINK && 'NETLINK=off',
  }, async () => {
    await using box = await createBox();
    await using net = await hostNetlink(box);
    const { host } = boxHost(box, net.netlink);
    for (const [options, pattern] of [
      [{ ...AUTO, invalidPackets: 'drop' }, /--invalid-packets=drop has no effect.*--backend=nftables/],
      [{ ...AUTO, invalidPackets: 'count' }, /^$/],
    ] as const) {
      const { dataplane, warning = '' } = await openDataplane(options, host);
      assert.ok(dataplane.iptables);
      assert.match(warning, pattern);
    }
  });

  for (const mode of MODES) {
    it(`are dropped by kube-proxy, or by nobody, which is a finding if they are to be: ${mode}`, async () => {
      await using box = await createBox();
      const { host } = boxHost(box);
      const { dataplane } = await openDataplane({ ...AUTO, mode }, host);
      for (const family of FAMILIES) {
        const command = `${WORDS[family].iptables}-${mode}`;
        const add = (...rule: readonly string[]) => succeed(box.run(command, rule));
        const found = async (invalidPackets: InvalidPackets) => {
          const drops = await kubeProxyDropsInvalid(host, family);
          const findings = invalidPacketFindings({ ...AUTO, invalidPackets }, dataplane, family, drops);
          return [drops, ...findings.map(({ kind }) => kind)];
        };
        assert.deepEqual([await found('drop'), await found('count')], [[false, 'invalid-packets'], [false]]);
        await add('-N', 'KUBE-FORWARD');
        await add(
          '-A',
          'KUBE-FORWARD',
          '-m',
          'conntrack',
          '--ctstate',
          'RELATED,ESTABLISHED',
          '-j',
          'ACCEPT',
        );
        assert.deepEqual(await found('drop'), [false, 'invalid-packets']);
        await add('-I', 'KUBE-FORWARD', '-m', 'conntrack', '--ctstate', 'INVALID', '-j', 'DROP');
        assert.deepEqual(await found('drop'), [true]);
      }
    });
  }
});
