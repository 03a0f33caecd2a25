import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readTable } from '../../lib/dataplane/nftables/observe.ts';
import { planTable, type TablePlan } from '../../lib/dataplane/nftables/plan.ts';
import type { Policy } from '../../lib/policy/policy.ts';
import { type Netlink, openNetlink } from '../lab/netlink.ts';
import {
  assertExact,
  createNftablesLab,
  DEFAULTS,
  FAMILY_KINDS,
  type Family,
  IP,
  type NftablesLab,
  policyOf,
  settle,
} from './support.ts';

const WORDS = {
  IPv4: {
    type: 'ipv4_addr',
    one: '10.0.0.0/8',
    halves: ['10.0.0.0/9', '10.128.0.0/9'],
    others: ['172.16.0.0/12', '8.8.8.8'],
  },
  IPv6: {
    type: 'ipv6_addr',
    one: 'fd00::/8',
    halves: ['fd00::/9', 'fd80::/9'],
    others: ['2001:db8::/32', '2001:4860::8'],
  },
} as const;

function policiesOf(family: Family) {
  const { one, halves, others } = WORDS[family];
  const of = (...cidrs: readonly string[]) =>
    policyOf(family, { 'ip-masq-a': JSON.stringify({ nonMasqueradeCIDRs: cidrs }) });
  return { before: of(one), planned: of(one, others[0]), another: of(halves[0]) } as const;
}

/** All combinations. */
function combined<A, B, C = undefined>(
  as: readonly A[],
  bs: readonly B[],
  cs: readonly C[] = [undefined as C],
): readonly (readonly [A, B, C])[] {
  return as.flatMap((a) => bs.flatMap((b) => cs.map((c) => [a, b, c] as const)));
}

/** The plan for the policy, and its transactions one after the other. */
async function planOf(netlink: Netlink, policy: Policy) {
  return planTable(await readTable(netlink, policy.family, DEFAULTS), policy, DEFAULTS);
}

async function planned(netlink: Netlink, policy: Policy) {
  const { transactions, cleanup } = (await planOf(netlink, policy)) ?? assert.fail();
  return [...transactions, cleanup].filter((one) => one.length > 0);
}

async function carryOut(netlink: Netlink, transactions: TablePlan['transactions']): Promise<void> {
  for (const transaction of transactions) await netlink.commit(transaction);
}

/** A table as a new process makes it, whose set has the first name. */
async function startAnew(node: NftablesLab, policy: Policy): Promise<void> {
  const table = `${IP[policy.family]} ip-masq-agent`;
  await node.nft(`add table ${table}; delete table ${table}`);
  await settle(node.dataplane, policy);
}

for (const { family, kind } of FAMILY_KINDS) {
  const table = `${IP[family]} ip-masq-agent`;
  const { type, one, halves, others } = WORDS[family];
  const policies = policiesOf(family);
  const lab = () => createNftablesLab(kind);

  describe(`the table of nftables, ${kind}, ${family}`, () => {
    const hook = `delete chain ${table} postrouting; add chain ${table} postrouting { type nat hook postrouting priority 90; }`;
    const states = [
      ['without a table', `delete table ${table}`, 2],
      ['with another config', '', 3],
      ['with another hook', hook, 3],
    ] as const;
    it('is right after the agent was killed anywhere, for the same config, another, and the one before', async () => {
      await using node = await lab();
      await using netlink = await openNetlink(node.box);
      for (const [[what, damage, count], killed, name] of combined(states, [1, 2, 3], [
        'planned',
        'another',
        'before',
      ] as const)) {
        await settle(node.dataplane, policies.before);
        await node.nft(damage);
        const transactions = await planned(netlink, policies.planned);
        assert.equal(transactions.length, count, what);
        await carryOut(netlink, transactions.slice(0, killed));
        // What was made before is used.
        const left = await planOf(netlink, policies.planned);
        assert.ok(!left?.transactions.flat().some(({ kind }) => kind === 'add set'), what);
        await node.sync(policies[name]);
        await assertExact(node, policies[name]);
      }
    });

    const edits = [
      (set: string) => `flush set ${set}`,
      (set: string) => `add element ${set} { ${others[1]} }`,
      (set: string) => `delete element ${set} { ${one} }`,
      (set: string) => `delete element ${set} { ${one} }; add element ${set} { ${halves.join(', ')} }`,
    ];
    it('is right after others have changed a set that rules look up, or one that a killed agent has left', async () => {
      await using node = await lab();
      await using netlink = await openNetlink(node.box);
      for (const [edit, set, name] of combined(edits, ['not-masqueraded', 'not-masqueraded-2'], [
        'planned',
        'before',
      ] as const)) {
        await startAnew(node, policies.before);
        await carryOut(netlink, (await planned(netlink, policies.planned)).slice(0, 1));
        await node.nft(edit(`${table} ${set}`));
        await node.sync(policies[name]);
        await assertExact(node, policies[name]);
      }
    });

    const sources = ['masqueraded-from', 'not-masqueraded-from'].map((set) => {
      const list = set === 'masqueraded-from' ? 'masqueradeFromCIDRs' : 'nonMasqueradeFromCIDRs';
      const config = { nonMasqueradeCIDRs: [one], [list]: [one] };
      return { set, policy: policyOf(family, { 'ip-masq-a': JSON.stringify(config) }) };
    });
    it('is right after others have changed a set of ranges that packets come from', async () => {
      await using node = await lab();
      for (const [edit, { set, policy }] of combined(edits, sources)) {
        await startAnew(node, policy);
        await node.nft(edit(`${table} ${set}`));
        await node.sync(policy);
        await assertExact(node, policy);
      }
    });

    it('holds no old set, also if another one has gone meanwhile', async () => {
      await using node = await lab();
      await startAnew(node, policies.before);
      const spare = ['not-masqueraded-7', 'not-masqueraded-8', 'not-masqueraded-9'];
      await node.nft(spare.map((set) => `add set ${table} ${set} { type ${type}; }`).join('\n'));
      const plan = (await node.dataplane.observe(family)).plan(policies.planned);
      await node.nft(`delete set ${table} ${spare[1]}`);
      await plan?.apply();
      await assertExact(node, policies.planned);
    });

    it('is not believed if its count and what is listed are of two moments', async () => {
      await using node = await lab();
      await using netlink = await openNetlink(node.box);
      await settle(node.dataplane, policies.before);
      const { id } = await netlink.generation();
      const counting: Netlink = {
        ...netlink,
        table: async (name) => {
          const found = await netlink.table(name);
          await node.nft(`add table ${IP[family]} theirs; delete table ${IP[family]} theirs`);
          return found && { ...found, use: found.use + 1 };
        },
      };
      const torn = readTable(counting, family, DEFAULTS, undefined, id);
      await assert.rejects(torn, { failure: 'interrupted' });
      assert.equal((await readTable(netlink, family, DEFAULTS, undefined, id))?.others, 0);
    });

    const base = 'type nat hook postrouting priority 90;';
    const daddr = `${IP[family]} daddr`;
    const element = others[1];
    it('holds nothing else, whatever others put into it, and what leads to that or uses it', async () => {
      await using node = await lab();
      for (const [content, name] of combined(
        [
          `chain theirs { ${base} ${daddr} @not-masqueraded return; }`,
          'set not-masqueraded-2 { type inet_service; elements = { 80 }; }',
          `set not-masqueraded-2 { type ${type}; }\nchain theirs { ${base} ${daddr} @not-masqueraded-2 accept; }`,
          `set masqueraded-from { type ${type}; flags interval; elements = { ${one} }; }`,
          'chain postrouting { jump { counter; }; }',
          `chain aside { return; }\nmap m { type ${type} : verdict; elements = { ${element} : jump aside }; }\nchain postrouting { ${daddr} vmap @m; jump aside; }`,
          'counter c { }\nquota q { over 5 mbytes; }\nct helper ftp { type "ftp" protocol tcp; }\nchain postrouting { counter name c; }',
          `counter c { }\nmap m { type ${type} : counter; elements = { ${element} : "c" }; }`,
          `chain aside { return; }\nmap m { type ${type} : verdict; flags constant; elements = { ${element} : jump aside }; }\nchain postrouting { ${daddr} vmap @m; }`,
          `map m { type ${type} : verdict; flags constant; elements = { ${element} : return }; }`,
        ],
        ['before', 'planned'] as const,
      )) {
        await startAnew(node, policies.before);
        await node.nft(`table ${table} {\n${content}\n}`);
        assert.ok(await node.sync(policies[name]), content);
        await assertExact(node, policies[name]);
      }
    });
  });
}
