import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { removeRules } from '../../lib/agent/remove.ts';
import type { Dataplane } from '../../lib/dataplane/dataplane.ts';
import { openIptables } from '../../lib/dataplane/iptables/iptables.ts';
import { succeed } from '../lab/run.ts';
import {
  CHAIN,
  DEFAULTS,
  type Family,
  forEachMode,
  IP,
  isInSync,
  policyOf,
  settle,
  syncOnce,
} from './support.ts';

const WORDS = {
  IPv4: { inside: '10.0.0.0/8', pods: '10.244.0.0/16', others: '192.0.2.0/24' },
  IPv6: { inside: 'fd00::/8', pods: 'fd00:244::/64', others: '2001:db8::/48' },
} as const;

/** In nftables the ranges are sets: see nftables-states.test.ts. */
forEachMode((makeLab, family, mode) => {
  describe('ranges that packets come from', () => {
    const { inside, pods, others } = WORDS[family];
    const tool = `${IP[family]}tables-${mode} -t nat`;
    const second = `${CHAIN}-FROM`;
    const policy = (ranges: object) => {
      const config = JSON.stringify({ nonMasqueradeCIDRs: [inside], ...ranges });
      return policyOf(family, { 'ip-masq-a': config });
    };
    const anywhere = policy({});
    const limited = policy({ masqueradeFromCIDRs: [pods, others] });
    const except = policy({ nonMasqueradeFromCIDRs: [pods, others] });
    const scripts = {
      limited: [
        `${tool} -F ${second}`,
        `${tool} -I ${second} -j RETURN`,
        `${tool} -D ${CHAIN} 1`,
        `${tool} -F ${CHAIN}; ${tool} -F ${second}; ${tool} -X ${second}`,
        // As ip-masq-agent v1 writes its chain: the second one stays, and nothing leads to it.
        `printf '*nat\\n:${CHAIN} - [0:0]\\n-A ${CHAIN} -j MASQUERADE\\nCOMMIT\\n' | ${tool.replace(' -t nat', '-restore')} --noflush`,
      ],
      except: [`${tool} -D ${CHAIN} 1`, `${tool} -F ${CHAIN}`, `${tool} -I ${CHAIN} -j ACCEPT`],
    };
    const createLab = async () => {
      const lab = await makeLab();
      return {
        ...lab,
        /** A new one, which remembers nothing. */
        another: () => openIptables({ mode, ...DEFAULTS }, lab.host),
        sh: (script: string) => succeed(lab.box.run('sh', ['-ec', script])),
        listing: () => lab.iptables('-S'),
      };
    };

    for (const [what, wanted, edits] of [
      ['them', limited, scripts.limited],
      ['them as exceptions', except, scripts.except],
    ] as const)
      it(`are repaired after others have changed what holds ${what}`, async () => {
        await using lab = await createLab();
        await settle(lab.dataplane, wanted);
        const before = await lab.listing();
        for (const script of edits) {
          await lab.sh(script);
          assert.equal(await isInSync(lab.dataplane, wanted), false, script);
          await settle(lab.dataplane, wanted);
          assert.equal(await lab.listing(), before, script);
        }
        for (const other of [limited, except, anywhere, wanted]) {
          await settle(lab.dataplane, other);
          assert.equal(await syncOnce(await lab.another(), other), undefined);
        }
        assert.equal(await lab.listing(), before);
      });

    for (const [what, script] of [
      ['flushed', `${tool} -F ${CHAIN}`],
      ['deleted', `${tool} -F POSTROUTING; ${tool} -F ${CHAIN}; ${tool} -X ${CHAIN}`],
      ['flushed, and the second one too', `${tool} -F ${CHAIN}; ${tool} -F ${second}`],
    ] as const) {
      it(`leave no second chain behind if the first one is ${what} before they go`, async () => {
        for (const go of ['sync', 'a new process', 'removal'] as const) {
          await using lab = await createLab();
          await settle(lab.dataplane, limited);
          await lab.sh(script);
          const dataplane = go === 'sync' ? lab.dataplane : await lab.another();
          if (go === 'removal') await remove(dataplane, family);
          else await settle(dataplane, anywhere);
          const listing = await lab.listing();
          assert.doesNotMatch(listing, /IP-MASQ-AGENT-FROM/, go);
          assert.equal(listing.includes(CHAIN), go !== 'removal', go);
        }
      });
    }

    for (const place of ['THEIRS', 'POSTROUTING']) {
      it(`go while a foreign rule in ${place} leads to the second chain, which stays, empty, and once that rule is deleted goes at the next change or start`, async () => {
        await using lab = await createLab();
        const { dataplane } = lab;
        await settle(dataplane, limited);
        const foreign = `${place} -p tcp -j ${second}`;
        await lab.sh(`${place === 'THEIRS' ? `${tool} -N THEIRS; ` : ''}${tool} -A ${foreign}`);
        const assertKept = async () => {
          assert.equal(await lab.sh(`${tool} -S ${second}`), `-N ${second}\n`);
          const observed = await dataplane.observe(family);
          assert.equal(observed.plan(anywhere), undefined);
          const [text = '', ...more] = observed.describeUndeletable(anywhere);
          assert.match(text, KEPT(second));
          assert.deepEqual(more, []);
        };
        await settle(dataplane, anywhere);
        await assertKept();
        // What is put into it goes too.
        await lab.sh(`${tool} -A ${second} -j MASQUERADE`);
        await settle(dataplane, anywhere);
        await assertKept();
        await lab.sh(`${tool} -D ${foreign}`);
        await assertKept();
        if (place === 'THEIRS') await settle(dataplane, policyOf(family, {}));
        else await settle(await lab.another(), anywhere);
        assert.doesNotMatch(await lab.listing(), /IP-MASQ-AGENT-FROM/);
      });
    }
  });
});

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
