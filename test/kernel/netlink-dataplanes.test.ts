import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DataplaneError } from '../../lib/dataplane/error.ts';
import type { Policy } from '../../lib/policy/policy.ts';
import { createNftablesLab, FAMILIES, type Family, isInSync, policyOf, settle, syncOnce } from './support.ts';

/** The agent's table, two entries of the config, and an address that no entry holds. */
const WORDS = {
  IPv4: { table: 'ip ip-masq-agent', entries: ['10.0.0.0/8', '192.168.0.0/16'], outside: '203.0.113.9' },
  IPv6: { table: 'ip6 ip-masq-agent', entries: ['2001:db8:1::/48', 'fd00::/8'], outside: '2001:db8:ff::9' },
} as const;

function policy(family: Family, ...cidrs: readonly string[]): Policy {
  const text = `{cidrLimit: 5000, nonMasqueradeCIDRs: ${JSON.stringify(cidrs)}}`;
  return policyOf(family, { 'ip-masq-operator': text }, { cidrLimitMax: 5_000 });
}

describe('the set over netlink', () => {
  for (const family of FAMILIES) {
    const { entries, table, outside } = WORDS[family];
    const wanted = policy(family, ...entries);
    const type = `type ${family.toLowerCase()}_addr; flags interval;`;

    for (const [what, change, before, command] of [
      [
        'a set that is to be added is there (EEXIST)',
        policy(family, ...entries, `${outside}/${family === 'IPv4' ? 32 : 128}`),
        'true',
        `nft add set ${table} not-masqueraded-2 '{ ${type} }'`,
      ],
      [
        'a chain that is to be deleted is gone (ENOENT)',
        wanted,
        `nft add chain ${table} theirs`,
        `nft delete chain ${table} theirs`,
      ],
    ] as const) {
      it(`${family}: a change fails as a whole if ${what}, and the next attempt succeeds`, async () => {
        await using lab = await createNftablesLab();
        await settle(lab.dataplane, wanted);
        await lab.sh(before);
        const plan = (await lab.dataplane.observe(family)).plan(change);
        assert.ok(plan);
        await lab.sh(command);
        const listed = await lab.sh('nft list ruleset');
        const isRace = (error: unknown) => error instanceof DataplaneError && error.failure === 'raced';
        await assert.rejects(plan.apply(), isRace);
        assert.equal(await lab.sh('nft list ruleset'), listed);
        await syncOnce(lab.dataplane, change);
        assert.equal(await isInSync(lab.dataplane, change), true);
      });
    }
  }
});
