import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { openIptables } from '../../lib/dataplane/iptables/iptables.ts';
import { openNftables } from '../../lib/dataplane/nftables/nftables.ts';
import { createBox } from '../lab/box.ts';
import { hostNetlink, WITH_NETLINK } from '../lab/netlink.ts';
import { succeed } from '../lab/run.ts';
import { BOX_KINDS, boxHost, CHAIN, FAMILIES, type Family, policyOf, syncOnce } from './support.ts';

const OPTIONS = { chain: CHAIN, randomFully: true, toPorts: [] };

const WORDS = {
  IPv4: {
    iptables: 'iptables',
    ip: 'ip',
    inside: '10.0.0.0/8',
    pods: '10.244.0.0/16',
    others: '192.0.2.0/24',
  },
  IPv6: {
    iptables: 'ip6tables',
    ip: 'ip6',
    inside: 'fd00::/8',
    pods: 'fd00:244::/64',
    others: '2001:db8::/48',
  },
} as const;

const KINDS = ['nft', 'legacy', 'nftables'] as const;

async function createLab(kind: (typeof KINDS)[number], family: Family, withNetlink: boolean) {
  await using stack = new AsyncDisposableStack();
  const box = stack.use(await createBox(BOX_KINDS[0]));
  const { netlink } = stack.use(await hostNetlink(box, withNetlink));
  const { host } = boxHost(box, netlink);
  const dataplane =
    kind === 'nftables'
      ? await openNftables(OPTIONS, host)
      : await openIptables({ mode: kind, ...OPTIONS }, host);
  const { iptables, ip, inside, pods, others } = WORDS[family];
  const owned = stack.move();
  return {
    dataplane,
    tool: kind === 'nftables' ? 'nft' : `${iptables}-${kind} -t nat`,
    table: `${ip} ip-masq-agent`,
    sh: (script: string) => succeed(box.run('sh', ['-ec', script])),
    /** All rules of the agent, as its tool lists them. */
    listing: () =>
      succeed(
        box.run('sh', [
          '-ec',
          kind === 'nftables' ? `nft list tables ${ip}` : `${iptables}-${kind} -t nat -S`,
        ]),
      ),
    anywhere: policyOf(family, { 'ip-masq-a': JSON.stringify({ nonMasqueradeCIDRs: [inside] }) }),
    limited: policyOf(family, {
      'ip-masq-a': JSON.stringify({ nonMasqueradeCIDRs: [inside], masqueradeFromCIDRs: [pods, others] }),
    }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

for (const kind of KINDS) {
  for (const family of FAMILIES) {
    for (const withNetlink of kind !== 'legacy' && WITH_NETLINK ? [true, false] : [false]) {
      describe(`ranges that packets come from, ${kind}, ${family}, ${withNetlink ? 'netlink' : 'tools'}`, () => {
        it('come, go and leave nothing, each in one transaction after which nothing differs', async () => {
          await using lab = await createLab(kind, family, withNetlink);
          for (const policy of [lab.anywhere, lab.limited, lab.anywhere, lab.limited, lab.limited]) {
            const plan = (await lab.dataplane.observe(family)).plan(policy);
            await plan?.apply();
            const after = await lab.dataplane.observe(family);
            assert.equal(after.plan(policy), undefined, plan?.script);
            assert.equal(after.fates().from === undefined, policy === lab.anywhere);
            if (kind !== 'nftables')
              assert.equal((await lab.listing()).includes(`${CHAIN}-FROM`), policy === lab.limited);
          }
          const removal = (await lab.dataplane.observe(family)).remove();
          assert.ok(removal);
          await removal.apply();
          assert.doesNotMatch(await lab.listing(), /IP-MASQ|ip-masq/);
        });

        it('are repaired after others have changed what holds them', async () => {
          await using lab = await createLab(kind, family, withNetlink);
          const { tool, table } = lab;
          const { pods } = WORDS[family];
          const scripts =
            kind === 'nftables'
              ? [
                  `nft delete element ${table} masqueraded-from "{ ${pods} }"`,
                  `nft flush set ${table} masqueraded-from`,
                  `nft flush chain ${table} postrouting`,
                  `nft delete chain ${table} postrouting; nft 'add chain ${table} postrouting { type nat hook postrouting priority srcnat + 10; }'`,
                ]
              : [
                  `${tool} -F ${CHAIN}-FROM`,
                  `${tool} -I ${CHAIN}-FROM -j RETURN`,
                  `${tool} -D ${CHAIN} 1`,
                  `${tool} -F ${CHAIN}; ${tool} -F ${CHAIN}-FROM; ${tool} -X ${CHAIN}-FROM`,
                  // As ip-masq-agent v1 writes its chain: the second one stays, and nothing leads to it.
                  `printf '*nat\\n:${CHAIN} - [0:0]\\n-A ${CHAIN} -j MASQUERADE\\nCOMMIT\\n' | ${tool.replace(' -t nat', '-restore')} --noflush`,
                ];
          const sync = () => syncOnce(lab.dataplane, lab.limited);
          const isTrusted = async () => (await lab.dataplane.observe(family)).isTrusted;
          await sync();
          assert.equal(await sync(), undefined);
          const before = await lab.sh(kind === 'nftables' ? `nft list table ${table}` : `${tool} -S`);
          for (const script of scripts) {
            assert.equal(await isTrusted(), true, script);
            await lab.sh(script);
            assert.equal(await isTrusted(), false, script);
            assert.ok(await sync(), script);
            assert.equal(await sync(), undefined, script);
            assert.equal(
              await lab.sh(kind === 'nftables' ? `nft list table ${table}` : `${tool} -S`),
              before,
              script,
            );
          }
        });
      });
    }
  }
}
