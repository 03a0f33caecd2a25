import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { removeRules } from '../../lib/agent/remove.ts';
import type { Dataplane } from '../../lib/dataplane/dataplane.ts';
import { openIptables } from '../../lib/dataplane/iptables/iptables.ts';
import { openNftables } from '../../lib/dataplane/nftables/nftables.ts';
import { createBox } from '../lab/box.ts';
import { hostNetlink } from '../lab/netlink.ts';
import { setInUse, unnumbered } from '../lab/own-sets.ts';
import { owning } from '../lab/owning.ts';
import { succeed } from '../lab/run.ts';
import {
  BOX_KINDS,
  boxHost,
  CHAIN,
  DEFAULTS,
  FAMILIES,
  type Family,
  IP,
  isInSync,
  policyOf,
  settle,
  syncOnce,
} from './support.ts';

const WORDS = {
  IPv4: {
    inside: '10.0.0.0/8',
    pods: '10.244.0.0/16',
    others: '192.0.2.0/24',
  },
  IPv6: {
    inside: 'fd00::/8',
    pods: 'fd00:244::/64',
    others: '2001:db8::/48',
  },
} as const;

type Kind = 'nft' | 'legacy' | 'nftables';

const LABS: readonly (readonly [Kind, Family])[] = [
  ['nft', 'IPv4'],
  ['legacy', 'IPv6'],
  ['nftables', 'IPv4'],
  ['nftables', 'IPv6'],
];

const createLab = (kind: Kind, family: Family) =>
  owning(async (stack) => {
    const box = stack.use(await createBox(BOX_KINDS[0]));
    const { netlink } = stack.use(await hostNetlink(box));
    const { host } = boxHost(box, netlink);
    const open = () =>
      kind === 'nftables' ? openNftables(DEFAULTS, host) : openIptables({ mode: kind, ...DEFAULTS }, host);
    const { inside, pods, others } = WORDS[family];
    const tool = kind === 'nftables' ? 'nft' : `${IP[family]}tables-${kind} -t nat`;
    const sh = (script: string) => succeed(box.run('sh', ['-ec', script]));
    const policy = (ranges: object) => {
      const config = JSON.stringify({ nonMasqueradeCIDRs: [inside], ...ranges });
      return policyOf(family, { 'ip-masq-a': config });
    };
    return {
      dataplane: await open(),
      /** A new one, which remembers nothing. */
      another: open,
      tool,
      sh,
      /** All rules of the agent, as its tool lists them. */
      listing: async () =>
        unnumbered(
          await sh(kind === 'nftables' ? `nft list table ${IP[family]} ip-masq-agent` : `${tool} -S`),
        ),
      anywhere: policy({}),
      limited: policy({ masqueradeFromCIDRs: [pods, others] }),
      except: policy({ nonMasqueradeFromCIDRs: [pods, others] }),
    };
  });

for (const [kind, family] of LABS.filter(([, family]) => FAMILIES.includes(family))) {
  describe(`ranges that packets come from, ${kind}, ${family}`, () => {
    const { pods } = WORDS[family];
    const scripts =
      kind === 'nftables'
        ? {
            limited: (table: string) => [
              `nft delete element ${table} ${setInUse(family, 'masqueraded-from')} "{ ${pods} }"`,
              `nft flush set ${table} ${setInUse(family, 'masqueraded-from')}`,
              `nft flush chain ${table} postrouting`,
              `nft delete chain ${table} postrouting; nft 'add chain ${table} postrouting { type nat hook postrouting priority srcnat + 10; }'`,
            ],
            except: (table: string) => [
              `nft delete element ${table} ${setInUse(family, 'not-masqueraded-from')} "{ ${pods} }"`,
              `nft flush set ${table} ${setInUse(family, 'not-masqueraded-from')}`,
              `set=${setInUse(family, 'not-masqueraded-from')}; nft flush chain ${table} postrouting; nft delete set ${table} $set`,
              `nft add set ${table} masqueraded-from "{ type ${family.toLowerCase()}_addr; flags interval; }"`,
            ],
          }
        : {
            limited: (tool: string) => [
              `${tool} -F ${CHAIN}-FROM`,
              `${tool} -I ${CHAIN}-FROM -j RETURN`,
              `${tool} -D ${CHAIN} 1`,
              `${tool} -F ${CHAIN}; ${tool} -F ${CHAIN}-FROM; ${tool} -X ${CHAIN}-FROM`,
              // As ip-masq-agent v1 writes its chain: the second one stays, and nothing leads to it.
              `printf '*nat\\n:${CHAIN} - [0:0]\\n-A ${CHAIN} -j MASQUERADE\\nCOMMIT\\n' | ${tool.replace(' -t nat', '-restore')} --noflush`,
            ],
            except: (tool: string) => [
              `${tool} -D ${CHAIN} 1`,
              `${tool} -F ${CHAIN}`,
              `${tool} -I ${CHAIN} -j ACCEPT`,
            ],
          };

    for (const [what, name] of [
      ['them', 'limited'],
      ['them as exceptions', 'except'],
    ] as const)
      it(`are repaired after others have changed what holds ${what}`, async () => {
        await using lab = await createLab(kind, family);
        const { tool, [name]: policy } = lab;
        await settle(lab.dataplane, policy);
        const before = await lab.listing();
        for (const script of scripts[name](kind === 'nftables' ? `${IP[family]} ip-masq-agent` : tool)) {
          await lab.sh(script);
          assert.equal(await isInSync(lab.dataplane, policy), false, script);
          await settle(lab.dataplane, policy);
          assert.equal(await lab.listing(), before, script);
        }
        for (const other of [lab.limited, lab.except, lab.anywhere, policy]) {
          await settle(lab.dataplane, other);
          assert.equal(await syncOnce(await lab.another(), other), undefined);
        }
        assert.equal(await lab.listing(), before);
      });

    if (kind === 'nftables') return;
    const second = `${CHAIN}-FROM`;

    for (const [what, script] of [
      ['flushed', (tool) => `${tool} -F ${CHAIN}`],
      ['deleted', (tool) => `${tool} -F POSTROUTING; ${tool} -F ${CHAIN}; ${tool} -X ${CHAIN}`],
      ['flushed, and the second one too', (tool) => `${tool} -F ${CHAIN}; ${tool} -F ${second}`],
    ] as const satisfies readonly (readonly [string, (tool: string) => string])[]) {
      it(`leave no second chain behind if the first one is ${what} before they go`, async () => {
        for (const go of ['sync', 'a new process', 'removal'] as const) {
          await using lab = await createLab(kind, family);
          await settle(lab.dataplane, lab.limited);
          await lab.sh(script(lab.tool));
          const dataplane = go === 'sync' ? lab.dataplane : await lab.another();
          if (go === 'removal') await remove(dataplane, family);
          else await settle(dataplane, lab.anywhere);
          const listing = await lab.listing();
          assert.doesNotMatch(listing, /IP-MASQ-AGENT-FROM/, go);
          assert.equal(listing.includes(CHAIN), go !== 'removal', go);
        }
      });
    }

    for (const place of ['THEIRS', 'POSTROUTING']) {
      it(`go while a foreign rule in ${place} leads to the second chain, which stays, empty, and once that rule is deleted goes at the next change or start`, async () => {
        await using lab = await createLab(kind, family);
        const { tool, dataplane } = lab;
        await settle(dataplane, lab.limited);
        const foreign = `${place} -p tcp -j ${second}`;
        await lab.sh(`${place === 'THEIRS' ? `${tool} -N THEIRS; ` : ''}${tool} -A ${foreign}`);
        const assertKept = async () => {
          assert.equal(await lab.sh(`${tool} -S ${second}`), `-N ${second}\n`);
          const observed = await dataplane.observe(family);
          assert.equal(observed.plan(lab.anywhere), undefined);
          const [text = '', ...more] = observed.describeUndeletable(lab.anywhere);
          assert.match(text, KEPT(second));
          assert.deepEqual(more, []);
        };
        await settle(dataplane, lab.anywhere);
        await assertKept();
        // What is put into it goes too.
        await lab.sh(`${tool} -A ${second} -j MASQUERADE`);
        await settle(dataplane, lab.anywhere);
        await assertKept();
        await lab.sh(`${tool} -D ${foreign}`);
        await assertKept();
        if (place === 'THEIRS') await settle(dataplane, policyOf(family, {}));
        else await settle(await lab.another(), lab.anywhere);
        assert.doesNotMatch(await lab.listing(), /IP-MASQ-AGENT-FROM/);
      });
    }
  });
}

/** What iptables in both modes says of a chain that a rule leads to. */
const KEPT = (chain: string) =>
  RegExp(
    `^chain ${chain} stays, empty, because iptables does not delete it: .*(?:busy|links).*; if a rule .*: cleanup then deletes the chain, and so does an agent .*, when it next changes its rules or starts`,
  );

const RETRY = { timeoutMs: 10_000, signal: new AbortController().signal, onRetry: () => {} };

async function remove(dataplane: Dataplane, family: Family): Promise<void> {
  await removeRules(dataplane, family, RETRY);
  assert.equal((await dataplane.observe(family)).planRemoval(), undefined);
}
