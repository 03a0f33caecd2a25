import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { EntryCount } from '../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../lib/dataplane/error.ts';
import type { Policy } from '../../lib/policy/policy.ts';
import { WITH_NETLINK } from '../lab/netlink.ts';
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

/** What was counted, by the entry. */
function packetsOf(counts: readonly EntryCount[]): Readonly<Record<string, bigint>> {
  const counted = counts.filter(({ packets }) => packets > 0n);
  return Object.fromEntries(counted.map(({ entry, packets }) => [entry?.prefix.text ?? 'else', packets]));
}

describe('the set over netlink', { skip: !WITH_NETLINK && 'NETLINK=off' }, () => {
  for (const family of FAMILIES) {
    const { entries, table, outside } = WORDS[family];
    const alone = `${outside}/${family === 'IPv4' ? 32 : 128}`;
    const wanted = policy(family, ...entries);

    for (const [what, change, command] of [
      [
        'an element that is to be added is there (EEXIST)',
        policy(family, ...entries, alone),
        `nft add element ${table} not-masqueraded { ${alone} }`,
      ],
      [
        'an element that is to be removed is gone (ENOENT)',
        policy(family, entries[1]),
        `nft delete element ${table} not-masqueraded { ${entries[0]} }`,
      ],
    ] as const) {
      it(`${family}: a change fails as a whole if ${what}, and the next attempt succeeds`, async () => {
        await using lab = await createNftablesLab();
        await settle(lab.dataplane, wanted);
        const plan = (await lab.dataplane.observe(family)).plan(change);
        assert.ok(plan);
        await lab.sh(command);
        const before = await lab.sh('nft list ruleset');
        const isRace = (error: unknown) => error instanceof DataplaneError && error.failure === 'raced';
        await assert.rejects(plan.apply(), isRace);
        assert.equal(await lab.sh('nft list ruleset'), before);
        await syncOnce(lab.dataplane, change);
        assert.equal(await isInSync(lab.dataplane, change), true);
      });
    }

    it(`${family}: elements that stay keep their counts, however many come and go`, async () => {
      await using lab = await createNftablesLab();
      const cidrs = Array.from({ length: 2_000 }, (_, index) =>
        family === 'IPv4'
          ? `10.${index >> 7}.${2 * (index & 127)}.0/24`
          : `fd00:${(2 * index).toString(16)}::/32`,
      );
      const all = policy(family, ...cidrs);
      await settle(lab.dataplane, all);
      const counted = all.entries.map(
        ({ prefix }, index) => `${prefix.text} counter packets ${index + 1} bytes 0`,
      );
      const set = `${table} not-masqueraded`;
      await lab.sh(`nft -f - <<END\nflush set ${set}\nadd element ${set} { ${counted.join(', ')} }\nEND`);
      assert.equal(await isInSync(lab.dataplane, all), true);
      const others = cidrs.map((cidr) => cidr.replace(/^10|^fd00/, family === 'IPv4' ? '20' : 'fc00'));
      for (const left of [
        cidrs.slice(1),
        [...cidrs.slice(1_500), ...others],
        cidrs.slice(1_500).filter((_, n) => n % 2),
      ]) {
        const fewer = policy(family, ...left);
        assert.equal((await syncOnce(lab.dataplane, fewer))?.remakes, false);
        const counts = await lab.dataplane.count(fewer);
        const expected = all.entries.map(({ prefix }, index) => [prefix.text, BigInt(index + 1)] as const);
        const kept = new Set(fewer.entries.map(({ prefix }) => prefix.text));
        assert.deepEqual(packetsOf(counts), Object.fromEntries(expected.filter(([text]) => kept.has(text))));
      }
    });
  }
});
