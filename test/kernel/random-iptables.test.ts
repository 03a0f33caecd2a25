import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { secondChain } from '../../lib/dataplane/iptables/chain.ts';
import { openIptables } from '../../lib/dataplane/iptables/iptables.ts';
import { renderChains } from '../../lib/dataplane/iptables/plan.ts';
import type { RuleOptions } from '../../lib/dataplane/options.ts';
import { NetlinkError } from '../../lib/netlink/error.ts';
import { targetOf } from '../../lib/netlink/expressions.ts';
import type { Policy } from '../../lib/policy/policy.ts';
import type { BoxKind } from '../lab/box.ts';
import { carryOut, type Edit, edits } from '../lab/edits.ts';
import { type RawMessage, toText } from '../lab/netlink.ts';
import { rawNatRules } from '../lab/raw-edits.ts';
import { succeed } from '../lab/run.ts';
import { RUNS } from '../lab/runs.ts';
import { policies, ruleOptions } from './arbitrary.ts';
import {
  CHAIN,
  createNetlinkBox,
  DEFAULTS,
  FAMILY_KINDS,
  type Family,
  IP,
  sync,
  syncOnce,
} from './support.ts';

const CHAINS = [CHAIN, secondChain(CHAIN)] as const;
const POSTROUTING = 'POSTROUTING';

for (const { family, kind } of FAMILY_KINDS) {
  describe(`iptables in nft mode, ${kind}, ${family}`, () => {
    it('makes what render prints, whatever other programs and raw messages have made of it', async (test) => {
      await using node = await createNode(kind, family);
      await using fresh = await createNode(kind, family);
      let [tried, refused] = [0, 0];
      await fc.assert(
        fc.asyncProperty(fc.array(steps(family), { minLength: 1, maxLength: 3 }), async (all) => {
          await node.empty();
          await syncOnce(await node.open(DEFAULTS), { family, from: [], entries: [] });
          for (const { policy, options, edits } of all) {
            for (const edit of edits) {
              tried += 1;
              if (!(await node.edit(edit))) refused += 1;
            }
            const dataplane = await node.open(options);
            await sync(dataplane, policy);
            const { id } = await node.netlink.generation();
            const again = await syncOnce(dataplane, policy);
            assert.equal(again, undefined, again?.script);
            assert.equal((await node.netlink.generation()).id, id);
            await fresh.empty();
            await fresh.restore(renderChains([policy], options));
            assert.deepEqual(await node.state(), await fresh.state());
          }
        }),
        { numRuns: 10 * RUNS },
      );
      test.diagnostic(`${tried} edits, of which ${refused} changed nothing`);
    });
  });
}

interface Step {
  readonly policy: Policy;
  readonly options: RuleOptions;
  readonly edits: readonly (Edit | RawMessage)[];
}

function steps(family: Family): fc.Arbitrary<Step> {
  const byTool = edits('iptables-nft').filter((edit) => edit.protocol === IP[family] && !('load' in edit));
  const raw = rawNatRules(family, CHAINS);
  return fc.record({
    policy: policies(family),
    options: ruleOptions(),
    edits: fc.array(fc.oneof<fc.Arbitrary<Edit | RawMessage>[]>(byTool, raw), { minLength: 1, maxLength: 5 }),
  });
}

async function createNode(kind: BoxKind, family: Family) {
  const owned = await createNetlinkBox(kind);
  const { box, netlink, host } = owned;
  const nat = { family, table: 'nat' } as const;
  return {
    netlink,
    open: (options: RuleOptions) => openIptables({ ...options, mode: 'nft' }, host),
    /** Whether it has changed anything. */
    async edit(edit: Edit | RawMessage): Promise<boolean> {
      if (typeof edit.protocol === 'string')
        return (await carryOut(box, 'iptables-nft', edit as Edit, [])).code === 0;
      try {
        await netlink.raw([edit as RawMessage]);
        return true;
      } catch (error) {
        if (error instanceof NetlinkError) return false;
        throw error;
      }
    },
    restore: (input: string) => succeed(box.run(`${IP[family]}tables-nft-restore`, ['--noflush'], { input })),
    empty: () => netlink.commit([{ kind: 'delete table', ...nat }]).catch(() => {}),
    /** The rules of the agent's chains, and those of POSTROUTING that lead to the first, without handles and counts. */
    async state() {
      const own = (await netlink.rules(nat)).filter(
        ({ chain, expressions }) =>
          CHAINS.some((name) => name === chain) || (chain === POSTROUTING && targetOf(expressions) === CHAIN),
      );
      return JSON.parse(toText(Object.groupBy(own, ({ chain }) => chain)), (key, value) =>
        ['handle', 'packets', 'bytes'].includes(key) ? 0 : value,
      );
    },
    [Symbol.asyncDispose]: () => owned[Symbol.asyncDispose](),
  };
}
