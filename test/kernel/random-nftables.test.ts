import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { ADDRESS_BITS } from '../../lib/cidr/address.ts';
import { rangeOf } from '../../lib/cidr/ranges.ts';
import { verdictAt } from '../../lib/dataplane/kernel-verdicts.ts';
import { openNftables } from '../../lib/dataplane/nftables/nftables.ts';
import { renderTables } from '../../lib/dataplane/nftables/table.ts';
import type { RuleOptions } from '../../lib/dataplane/options.ts';
import type { TableName } from '../../lib/netlink/change.ts';
import { allowedSources } from '../../lib/policy/flatten.ts';
import { decider, type Policy } from '../../lib/policy/policy.ts';
import { type BoxKind, createBox } from '../lab/box.ts';
import { carryOut, type Edit, edits } from '../lab/edits.ts';
import { hostNetlink, type Netlink, toText } from '../lab/netlink.ts';
import { unnumbered } from '../lab/own-sets.ts';
import { RUNS } from '../lab/runs.ts';
import { policies, ruleOptions } from './arbitrary.ts';
import {
  boxHost,
  createNetlinkBox,
  DEFAULTS,
  FAMILY_KINDS,
  type Family,
  IP,
  sync,
  syncOnce,
} from './support.ts';

for (const { family, kind } of FAMILY_KINDS) {
  describe(`nftables, ${kind}, ${family}`, () => {
    it('reads back whatever it or nft writes, after whatever was there before, and decides as the policy does', async () => {
      await using box = await createBox(kind);
      await using net = await hostNetlink(box);
      const { host } = boxHost(box, net.netlink);
      await fc.assert(
        fc.asyncProperty(policies(family), ruleOptions(), async (policy, options) => {
          const dataplane = openNftables(options, host);
          const plan = (await dataplane.observe(family)).plan(policy);
          await plan?.apply();
          assert.equal((await dataplane.observe(family)).plan(policy), undefined);
          const after = await dataplane.observe(family);
          // The same as nft makes of what `render` prints.
          const { code, stderr } = await box.run('nft', ['-f', '-'], {
            input: renderTables([policy], options),
          });
          assert.equal(code, 0, stderr);
          const loaded = (await dataplane.observe(family)).plan(policy);
          assert.equal(loaded, undefined);
          const decide = decider(policy);
          const verdicts = after.verdicts();
          assert.deepEqual(verdicts.from, allowedSources(policy));
          const isAnyAllowed = verdicts.from?.ranges.length !== 0;
          for (const value of edgesOf(policy)) {
            const address = { family, value };
            const decided = decide(address)?.verdict ?? 'masqueraded';
            const expected = isAnyAllowed ? decided : 'not_masqueraded';
            const { state, verdict } = verdictAt(verdicts, address);
            assert.deepEqual({ state, verdict }, { state: 'applied', verdict: expected });
          }
        }),
        { numRuns: 12 * RUNS },
      );
    });

    it('makes what it makes of an empty kernel, whatever other programs have made of it', async (test) => {
      await using node = await createNode(kind, family);
      await using fresh = await createNode(kind, family);
      let [tried, refused] = [0, 0];
      await fc.assert(
        fc.asyncProperty(fc.array(steps(family), { minLength: 1, maxLength: 4 }), async (all) => {
          await node.empty();
          await syncOnce(openNftables(DEFAULTS, node.host), { family, from: [], entries: [] });
          for (const { policy, options, edits } of all) {
            for (const edit of edits) {
              tried += 1;
              if (!(await node.edit(edit))) refused += 1;
            }
            const dataplane = openNftables(options, node.host);
            await sync(dataplane, policy);
            const { id } = await node.netlink.generation();
            const again = await syncOnce(dataplane, policy);
            assert.equal(again, undefined);
            assert.equal((await node.netlink.generation()).id, id);
            await fresh.empty();
            await syncOnce(openNftables(options, fresh.host), policy);
            assert.deepEqual(await node.state(), await fresh.state());
          }
          assert.deepEqual(await node.listed(), await fresh.listed());
        }),
        { numRuns: 12 * RUNS },
      );
      test.diagnostic(`${tried} edits, of which ${refused} changed nothing`);
    });
  });
}

interface Step {
  readonly policy: Policy;
  readonly options: RuleOptions;
  readonly edits: readonly Edit[];
}

function steps(family: Family): fc.Arbitrary<Step> {
  const byNft = edits('nftables').filter(({ protocol }) => protocol === IP[family]);
  return fc.record({
    policy: policies(family),
    options: ruleOptions(),
    edits: fc.array(byNft, { maxLength: 4 }),
  });
}

async function createNode(kind: BoxKind, family: Family) {
  const owned = await createNetlinkBox(kind);
  const { box, netlink, host } = owned;
  const table = { family, table: 'ip-masq-agent' } as const;
  return {
    host,
    netlink,
    /** Whether it has changed anything. */
    edit: async (edit: Edit): Promise<boolean> => (await carryOut(box, 'nftables', edit)).code === 0,
    empty: () => netlink.commit([{ kind: 'delete table', ...table }]).catch(() => {}),
    state: () => stateOf(netlink, table),
    /** The lines of nft: chains are in the order in which they were made. */
    async listed(): Promise<readonly string[]> {
      const { code, stdout, stderr } = await box.run('nft', ['-s', 'list', 'ruleset']);
      assert.equal(code, 0, stderr);
      return unnumbered(stdout).split('\n').toSorted();
    },
    [Symbol.asyncDispose]: () => owned[Symbol.asyncDispose](),
  };
}

/** The addresses on both sides of both ends of every entry. */
function edgesOf({ family, entries }: Policy): readonly bigint[] {
  const highest = 2n ** BigInt(ADDRESS_BITS[family]) - 1n;
  return entries
    .flatMap(({ prefix }) => {
      const { first, last } = rangeOf(prefix);
      return [first - 1n, first, last, last + 1n];
    })
    .filter((value) => value >= 0n && value <= highest);
}

/** All that the kernel tells of the table, but handles, counts, numbers of sets, and the order of what the agent finds by name. */
async function stateOf(netlink: Netlink, table: TableName) {
  const sets = await netlink.sets(table);
  const byName = <One extends { readonly name: string }>(all: readonly One[]) =>
    all.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const state = {
    table: await netlink.table(table),
    sets: byName(
      await Promise.all(
        sets.map(async (set) => ({
          ...set,
          elements: await netlink.elements({ ...table, set: set.name }),
        })),
      ),
    ),
    chains: byName(await netlink.chains(table)),
    rules: Object.groupBy(await netlink.rules(table), ({ chain }) => chain),
  };
  return JSON.parse(unnumbered(toText(state)), (key, value) =>
    ['handle', 'packets', 'bytes'].includes(key) ? 0 : value,
  );
}
