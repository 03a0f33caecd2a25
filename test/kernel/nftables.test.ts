import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { DataplaneError } from '../../lib/dataplane/error.ts';
import { Netlink } from '../../lib/dataplane/netlink.ts';
import { openNftables } from '../../lib/dataplane/nftables/nftables.ts';
import type { RuleOptions } from '../../lib/dataplane/options.ts';
import type { Expression } from '../../lib/netlink/expressions.ts';
import type { Policy } from '../../lib/policy/policy.ts';
import { DAMAGES } from '../lab/damages.ts';
import { openNetlink } from '../lab/netlink.ts';
import { RAW_EDITS } from '../lab/raw-edits.ts';
import { succeed } from '../lab/run.ts';
import {
  assertExact,
  createNetlinkBox,
  createNftablesLab,
  DEFAULTS,
  FAMILY_KINDS,
  type Family,
  IP,
  isInSync,
  type NftablesLab,
  ownTable,
  policyOf,
  settle,
  syncOnce,
} from './support.ts';

const CONFIG: Readonly<Record<Family, string>> = {
  IPv4: 'nonMasqueradeCIDRs: [10.0.0.0/8, 192.168.0.0/16]',
  IPv6: 'nonMasqueradeCIDRs: [fd00::/8, "2001:db8::/32"]',
};
const MORE: Readonly<Record<Family, string>> = {
  IPv4: 'nonMasqueradeCIDRs: [10.0.0.0/8, 192.168.0.0/16, 172.16.0.0/12]',
  IPv6: 'nonMasqueradeCIDRs: [fd00::/8, "2001:db8::/32", "64:ff9b::/96"]',
};
const TABLE = (family: Family) => `${IP[family]} ip-masq-agent`;

for (const { family, kind } of FAMILY_KINDS) {
  const policy = policyOf(family, { 'ip-masq-operator': CONFIG[family] });
  const lab = (options?: Partial<RuleOptions>) => createNftablesLab(kind, options);

  describe(`nftables, ${kind}, ${family}`, () => {
    it('makes the table, then has nothing more to do, and starts no program', async () => {
      await using node = await lab();
      const plan = await node.sync(policy);
      assert.deepEqual(plan?.found, ['table missing']);
      await assertExact(node, policy);
      assert.equal(await node.sync(policy), undefined);
      assert.deepEqual(node.commands, []);
    });

    it('fills another set, switches the rules to it, and deletes the first, one after the other', async () => {
      await using node = await lab();
      await node.sync(policy);
      assert.equal(await node.sync(policy), undefined);
      const more = policyOf(family, { 'ip-masq-operator': MORE[family] });
      for (const [to, name, old] of [
        [more, 'not-masqueraded-2', 'not-masqueraded'],
        [policy, 'not-masqueraded', 'not-masqueraded-2'],
      ] as const) {
        const plan = await node.sync(to);
        assert.deepEqual(plan?.found, ['elements differ']);
        // People see what comes and goes, not the name of the set.
        const changed = [plan.added, plan.removed].map((lines) => lines.map(({ text }) => text));
        const element = `element ${family === 'IPv4' ? '172.16.0.0/12' : '64:ff9b::/96'}`;
        assert.deepEqual(changed, to === more ? [[element], []] : [[], [element]]);
        const sets = await node.nft(`list sets ${IP[family]}`);
        assert.ok(sets.includes(`set ${name} {`) && !sets.includes(`set ${old} {`), sets);
        await assertExact(node, to);
      }
    });

    it('lists the elements of new sets, and others only after another program has changed anything in nf_tables', async () => {
      await using node = await createNetlinkBox(kind);
      const listed: string[] = [];
      const requests = {
        ...node.netlink,
        elements: (...values: Parameters<typeof node.netlink.elements>) => {
          listed.push(values[0].set);
          return node.netlink.elements(...values);
        },
      };
      const sockets = { openRequests: () => requests, openWatch: () => assert.fail() };
      const dataplane = openNftables(DEFAULTS, { netlink: new Netlink(sockets, () => {}) });
      const nft = (script: string) => succeed(node.box.run('nft', ['-f', '-'], { input: script }));
      const more = policyOf(family, { 'ip-masq-operator': MORE[family] });
      const listings = async (...steps: readonly (() => Promise<unknown>)[]) => {
        for (const step of steps) await step();
        return listed.splice(0);
      };
      const readBack = async (wanted: Policy) => assert.ok(await isInSync(dataplane, wanted));
      const change = (wanted: Policy) =>
        listings(
          () => syncOnce(dataplane, wanted),
          () => readBack(wanted),
        );
      // What the agent has written itself is read once.
      const changes = [await change(policy), await change(more), await change(policy), await change(policy)];
      assert.deepEqual(changes, [['not-masqueraded'], ['not-masqueraded-2'], ['not-masqueraded'], []]);
      const [other, edit] = [`add table ${IP[family]} theirs`, `flush set ${TABLE(family)} not-masqueraded`];
      assert.deepEqual(
        await listings(
          () => nft(other),
          () => readBack(policy),
        ),
        ['not-masqueraded'],
      );
      const repair = async () =>
        assert.deepEqual((await syncOnce(dataplane, policy))?.found, ['elements differ']);
      assert.deepEqual(
        await listings(
          () => nft(edit),
          repair,
          () => readBack(policy),
        ),
        ['not-masqueraded', 'not-masqueraded-2'],
      );
      // Something has changed between the reading and the transactions.
      const plan = (await dataplane.observe(family)).plan(more);
      await nft(`delete table ${IP[family]} theirs`);
      assert.deepEqual(
        await listings(
          async () => plan?.apply(),
          () => readBack(more),
        ),
        ['not-masqueraded'],
      );
    });

    it('takes for its own what a newer kernel shows of the rules that it has just written, and nothing else', async () => {
      await using node = await createNetlinkBox(kind);
      const requests = {
        ...node.netlink,
        rules: async (...values: Parameters<typeof node.netlink.rules>) => {
          const more = (one: Expression): Expression =>
            one.name === 'masq' ? { name: 'unknown', type: 'masq', bytes: '0c000900' } : one;
          const rules = await node.netlink.rules(...values);
          return rules.map((rule) => ({ ...rule, expressions: rule.expressions.map(more) }));
        },
      };
      const sockets = { openRequests: () => requests, openWatch: () => assert.fail() };
      const open = () => openNftables(DEFAULTS, { netlink: new Netlink(sockets, () => {}) });
      const dataplane = open();
      const nft = (script: string) => succeed(node.box.run('nft', ['-f', '-'], { input: script }));
      await settle(dataplane, policy);
      // A new process writes them once.
      assert.equal(await isInSync(open(), policy), false);
      const { ranges } = (await dataplane.observe(family)).verdicts();
      assert.equal(ranges.at(-1)?.verdict, 'masqueraded');
      await nft(`add rule ${TABLE(family)} postrouting masquerade`);
      assert.deepEqual((await syncOnce(dataplane, policy))?.found, ['rules differ']);
      assert.equal(await isInSync(dataplane, policy), true);
    });

    describe('on one node, one after the other,', () => {
      let node: NftablesLab;
      before(async () => {
        node = await lab();
        await node.nft(
          `table ${IP[family]} theirs { chain c { type nat hook postrouting priority 10; counter; }; }`,
        );
      });
      after(() => node[Symbol.asyncDispose]());

      for (const [what, { found, script }] of Object.entries(DAMAGES.nftables)) {
        it(`sees and repairs ${what}`, async () => {
          await settle(node.dataplane, policy);
          await node.sh(script(family, ''));
          // Some delete it too.
          const foreign = async () =>
            (await node.box.run('nft', ['list', 'table', IP[family], 'theirs'])).stdout;
          const before = await foreign();
          assert.deepEqual((await node.sync(policy))?.found, found);
          await assertExact(node, policy);
          await settle(node.dataplane, policy);
          assert.equal(await foreign(), before);
        });
      }
    });

    it('sees and repairs what no tool writes, or every nft dies on, and reports nothing of its own', async () => {
      await using node = await lab();
      await using netlink = await openNetlink(node.box);
      for (const [what, edit] of RAW_EDITS(family)) {
        await settle(node.dataplane, policy);
        await netlink.raw([edit]);
        const plan = await node.sync(policy);
        assert.deepEqual(plan?.found, ['rules differ'], what);
        await assertExact(node, policy);
        assert.deepEqual((await node.dataplane.observe(family)).describeUndeletable(policy), []);
      }
    });

    it('has rules for port ranges that make every port as likely as any other, and reads them back', async () => {
      const toPorts = [
        { first: 1024, last: 29_999 },
        { first: 40_000, last: 40_000 },
        { first: 50_000, last: 65_535 },
      ];
      await using node = await lab({ toPorts, randomFully: false });
      await node.sync(policy);
      assert.equal((await node.dataplane.observe(family)).plan(policy), undefined);
      const rules = (await node.nft(`list table ${TABLE(family)}`)).match(/meta l4proto udp .*(?= comment)/g);
      assert.deepEqual(
        rules?.map((rule) => rule.replace(/counter packets 0 bytes 0/, 'counter')),
        [
          'meta l4proto udp numgen random mod 44513 < 28976 counter masquerade to :1024-29999',
          'meta l4proto udp numgen random mod 15537 < 1 counter masquerade to :40000',
          'meta l4proto udp counter masquerade to :50000-65535',
        ],
      );
    });

    for (const comment of ['', 'comment "ip-masq-agent: x"; '])
      it(`names the process that owns the table ${comment === '' ? 'of another program' : 'of the agent'}, and writes its rules once that has ended`, async () => {
        await using node = await lab();
        using owner = await ownTable(node.box, TABLE(family), `chain a { ${comment}};`);
        await assert.rejects(node.sync(policy), ({ failure, message, remedy }: DataplaneError) => {
          assert.equal(failure, 'blocked');
          assert.match(message, new RegExp(`\\(netlink port ${owner.pid}, `));
          assert.doesNotMatch(remedy, /NET_ADMIN/);
          return true;
        });
        await owner.end();
        await settle(node.dataplane, policy);
        await assertExact(node, policy);
      });

    it('does not make its table again if only the comment of the table is lost, as in a file of an older nft', async () => {
      await using node = await lab();
      await node.sync(policy);
      const table = TABLE(family);
      const saved = await node.nft(`list table ${table}`);
      await node.nft(`delete table ${table}\n${saved.replace(/^\tcomment .*\n/m, '')}`);
      assert.equal(await node.sync(policy), undefined);
      const head = async () => (await node.nft(`list ruleset`)).match(/^table.*\n.*/m)?.[0];
      const before = await head();
      assert.match(before ?? '', /\{\n\tset /);
      await node.nft(`flush chain ${table} postrouting`);
      assert.deepEqual((await node.sync(policy))?.found, ['rules differ']);
      assert.equal(await isInSync(node.dataplane, policy), true);
      assert.equal(await head(), before);
    });

    it('does not touch a table with its name that another program has made, and says so', async () => {
      await using node = await lab();
      await node.nft(`table ${TABLE(family)} { chain theirs { counter; }; }`);
      const before = await node.nft(`list table ${TABLE(family)}`);
      await assert.rejects(
        node.sync(policy),
        (error) =>
          error instanceof DataplaneError &&
          error.failure === 'blocked' &&
          error.message.includes(`the table ${TABLE(family)} is not the agent's`) &&
          // No command: it would change what the agent did not write.
          /^find out which program made it, (?!.*nft )/.test(error.remedy),
      );
      assert.equal((await node.dataplane.observe(family)).planRemoval(), undefined);
      assert.equal(await node.nft(`list table ${TABLE(family)}`), before);
    });

    it('removes its table and no other, then has nothing to remove', async () => {
      await using node = await lab();
      await node.nft(`table ${IP[family]} theirs { chain c { counter; }; }`);
      const before = await node.nft(`list table ${IP[family]} theirs`);
      await node.sync(policy);
      const plan = (await node.dataplane.observe(family)).planRemoval();
      assert.deepEqual(plan?.found, ['table left over']);
      await plan.apply();
      assert.equal(await node.nft('list tables'), `table ${IP[family]} theirs\n`);
      assert.equal((await node.dataplane.observe(family)).planRemoval(), undefined);
      assert.equal(await node.nft(`list table ${IP[family]} theirs`), before);
    });
  });
}
