import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Policy } from '../../lib/policy/policy.ts';
import { createNftablesLab, FAMILIES, type Family, IP, kindOf, policyOf, syncOnce } from './support.ts';

const WORDS = {
  IPv4: { ip: 'ip', iptables: 'iptables', inside: '10.0.0.0/8', pods: '10.244.0.0/16' },
  IPv6: { ip: 'ip6', iptables: 'ip6tables', inside: 'fd00::/8', pods: 'fd00:244::/64' },
} as const;

function policyFor(family: Family): Policy {
  const { inside, pods } = WORDS[family];
  return policyOf(family, {
    'ip-masq-a': JSON.stringify({ nonMasqueradeCIDRs: [inside], masqueradeFromCIDRs: [pods] }),
  });
}

/** The lines of a listing, whatever the order of the chains. */
function linesOf(listing: string): readonly string[] {
  return listing.split('\n').toSorted();
}

for (const family of FAMILIES) {
  const policy = policyFor(family);
  const table = `${IP[family]} ip-masq-agent`;
  describe(`the chain of packets that conntrack refuses, ${family}`, () => {
    it('is repaired after others have changed it, and removed with all else', async () => {
      await using lab = await createNftablesLab(kindOf(0), { invalidPackets: 'drop' });
      const { dataplane } = lab;
      const list = () => lab.nft(`list table ${table}`);
      await syncOnce(dataplane, policy);
      assert.equal(await syncOnce(dataplane, policy), undefined);
      const before = linesOf(await list());
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
        assert.ok(await syncOnce(dataplane, policy), script);
        assert.equal(await syncOnce(dataplane, policy), undefined, script);
        assert.deepEqual(linesOf(await list()), before, script);
      }
      await (await dataplane.observe(family)).planRemoval()?.apply();
      assert.equal(await lab.sh('nft list tables'), '');
    });

    it('comes and goes with the flag, and without it the table is what it is without the flag', async () => {
      await using lab = await createNftablesLab();
      const list = () => lab.nft(`list table ${table}`);
      await lab.sync(policy);
      const without = await list();
      assert.doesNotMatch(without, /invalid/);
      for (const value of ['count', 'off', 'drop', 'count', 'off'] as const) {
        const plan = await syncOnce(lab.open({ invalidPackets: value }), policy);
        assert.deepEqual(plan?.found, ['rules differ'], value);
        const listing = await list();
        if (value === 'off') assert.equal(listing, without);
        else assert.match(listing, value === 'drop' ? /bytes 0 drop comment/ : /bytes 0 comment/);
      }
    });

    it('is known by what it does, and changes no verdict', async () => {
      await using lab = await createNftablesLab();
      for (const value of ['off', 'count', 'drop'] as const) {
        const dataplane = lab.open({ invalidPackets: value });
        await syncOnce(dataplane, policy);
        const { state, ranges } = (await dataplane.observe(family)).verdicts();
        assert.equal(state, 'applied');
        assert.ok(ranges.every(({ verdict }) => verdict !== undefined));
      }
      await lab.sh(`nft insert rule ${table} postrouting-invalid drop`);
      const { ranges } = (await lab.open({ invalidPackets: 'drop' }).observe(family)).verdicts();
      assert.ok(ranges.some(({ verdict }) => verdict === undefined));
    });
  });
}
