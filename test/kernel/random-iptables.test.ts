import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Dataplane } from '../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../lib/dataplane/error.ts';
import { secondChain } from '../../lib/dataplane/iptables/chain.ts';
import { openIptables } from '../../lib/dataplane/iptables/iptables.ts';
import { renderChains } from '../../lib/dataplane/iptables/plan.ts';
import type { RuleOptions } from '../../lib/dataplane/options.ts';
import { NetlinkError } from '../../lib/netlink/error.ts';
import type { Expression } from '../../lib/netlink/expressions.ts';
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
            if (!(await canSync(dataplane, policy))) return;
            const { id } = await node.netlink.generation();
            const again = await syncOnce(dataplane, policy);
            assert.equal(again, undefined, again?.script);
            assert.equal((await node.netlink.generation()).id, id);
            await fresh.empty();
            await fresh.restore(renderChains([policy], options));
            const [own, wanted] = [await node.state(), await fresh.state()];
            const jumps = (state: typeof own) => (state[POSTROUTING] ?? []).map((rule) => toText(rule));
            // A jump that iptables cannot read stays: it leads where the agent's own one leads.
            assert.ok(jumps(own).includes(jumps(wanted)[0] ?? ''));
            assert.deepEqual({ ...own, [POSTROUTING]: [] }, { ...wanted, [POSTROUTING]: [] });
          }
        }),
        { numRuns: 10 * RUNS },
      );
      test.diagnostic(`${tried} edits, of which ${refused} changed nothing`);
    });
  });
}

/** Syncs; false if iptables can neither list POSTROUTING nor look for the jump there. */
async function canSync(dataplane: Dataplane, policy: Policy): Promise<boolean> {
  try {
    await sync(dataplane, policy);
    return true;
  } catch (error) {
    if (!(error instanceof DataplaneError) || error.failure !== 'unreadable') throw error;
    return false;
  }
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
          CHAINS.some((name) => name === chain) || (chain === POSTROUTING && leadsTo(expressions, CHAIN)),
      );
      const leadsOn = own.some(
        ({ chain, expressions }) => chain === CHAIN && leadsTo(expressions, CHAINS[1]),
      );
      // iptables does not see a second chain that it cannot list, and to which nothing leads.
      const seen = own.filter(({ chain }) => chain !== CHAINS[1] || leadsOn);
      const text = toText(Object.groupBy(seen, ({ chain }) => chain));
      return JSON.parse(text, (key, value) =>
        ['handle', 'packets', 'bytes'].includes(key) ? 0 : value,
      ) as Readonly<Record<string, readonly unknown[]>>;
    },
    [Symbol.asyncDispose]: () => owned[Symbol.asyncDispose](),
  };
}

function leadsTo(expressions: readonly Expression[], chain: string): boolean {
  return expressions.some((one) => one.name === 'immediate' && one.verdict?.chain === chain);
}
