import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseRange } from '../../../lib/cidr/ranges.ts';
import type { DataplaneError } from '../../../lib/dataplane/error.ts';
import { Netlink } from '../../../lib/dataplane/netlink.ts';
import { dataplaneError } from '../../../lib/dataplane/nftables/failure.ts';
import { openNftables } from '../../../lib/dataplane/nftables/nftables.ts';
import { planRemoval, planTable } from '../../../lib/dataplane/nftables/plan.ts';
import { linesOf, type Table } from '../../../lib/dataplane/nftables/ruleset.ts';
import { renderTable } from '../../../lib/dataplane/nftables/table.ts';
import { NetlinkError } from '../../../lib/netlink/error.ts';
import { readUserData, writeUserData } from '../../../lib/netlink/user-data.ts';
import { compilePolicy } from '../../../lib/policy/policy.ts';
import { mergedOf } from '../config/support.ts';
import { fakeNetlink } from './support.ts';

const OPTIONS = { chain: 'X', randomFully: false, toPorts: [] };

function policyOf(text: string) {
  return compilePolicy(mergedOf({ x: `masqLinkLocal: true\n${text}` }), 'IPv4');
}

const POLICY = policyOf('nonMasqueradeCIDRs: [10.0.0.0/8]\n');
const FROM = policyOf('nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqueradeFromCIDRs: [10.244.0.0/16]\n');
const NOT_FROM = policyOf('nonMasqueradeCIDRs: [10.0.0.0/8]\nnonMasqueradeFromCIDRs: [10.244.0.0/16]\n');
const TABLE = renderTable(POLICY, OPTIONS);
const WITH_FROM = renderTable(FROM, OPTIONS);
const [CHAIN] = TABLE.chains;

function rangesOf(...texts: readonly string[]) {
  return texts.flatMap((text) => parseRange(text) ?? []);
}

/** The first words of each command, transaction by transaction. */
function wordsOf(script: string): readonly (readonly string[])[] {
  return script.split('\n\n').map((transaction) =>
    transaction
      .trim()
      .split('\n')
      .map((line) =>
        line
          .replace(/ (\{ (?!\d).*|comment .*)$/, '')
          .replace(/ip ip-masq-agent(-interim)?/, (_, interim) => (interim ? 'INTERIM' : 'TABLE'))
          .replace(/(rule \S+ \S+) .*/, '$1'),
      ),
  );
}

const MADE_AGAIN = ['INTERIM', 'TABLE'].map((table) => [
  [
    `add table ${table}`,
    `add set ${table} not-masqueraded`,
    `add element ${table} not-masqueraded { 10.0.0.0/8 }`,
  ],
  [`add chain ${table} postrouting`, ...Array.from({ length: 3 }, () => `add rule ${table} postrouting`)],
]);
const ANEW = [
  ...(MADE_AGAIN[0] ?? []),
  ['delete table TABLE', ...(MADE_AGAIN[1]?.[0] ?? [])],
  ...(MADE_AGAIN[1]?.slice(1) ?? []),
  ['delete table INTERIM'],
];

describe('the plan for a table of nftables', () => {
  const rules = (count: number) => Array.from({ length: count }, () => 'add rule TABLE postrouting');
  for (const [what, had, policy, found, commands] of [
    ['nothing if it is the same', TABLE, POLICY, undefined, undefined],
    ['makes it, the sets before the rules', undefined, POLICY, ['table missing'], MADE_AGAIN[1]],
    [
      'changes single elements',
      TABLE,
      policyOf('nonMasqueradeCIDRs: [10.0.0.0/9, 192.168.0.0/16]\n'),
      ['elements differ'],
      [
        [
          'delete element TABLE not-masqueraded { 10.0.0.0/8 }',
          'add element TABLE not-masqueraded { 10.0.0.0/9, 192.168.0.0/16 }',
        ],
      ],
    ],
    [
      'writes the rules of a chain again',
      { ...TABLE, chains: [{ ...CHAIN, rules: [] }] },
      POLICY,
      ['rules differ'],
      [['flush chain TABLE postrouting', ...rules(3)]],
    ],
    [
      'makes a chain again if its hook differs',
      { ...TABLE, chains: [{ ...CHAIN, hook: { ...CHAIN?.hook, priority: 100 } }] },
      POLICY,
      ['rules differ'],
      [['delete chain TABLE postrouting', 'add chain TABLE postrouting', ...rules(3)]],
    ],
    [
      'adds the second set before the rule that uses it',
      TABLE,
      FROM,
      ['rules differ'],
      [
        ['add set TABLE masqueraded-from', 'add element TABLE masqueraded-from { 10.244.0.0/16 }'],
        ['flush chain TABLE postrouting', ...rules(4)],
      ],
    ],
    [
      'changes single elements of the second set',
      WITH_FROM,
      policyOf('nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqueradeFromCIDRs: [10.245.0.0/16]\n'),
      ['elements differ'],
      [
        [
          'delete element TABLE masqueraded-from { 10.244.0.0/16 }',
          'add element TABLE masqueraded-from { 10.245.0.0/16 }',
        ],
      ],
    ],
    [
      'deletes the chain of packets that NAT does not see',
      renderTable(POLICY, { ...OPTIONS, invalidPackets: 'drop' }),
      POLICY,
      ['rules differ'],
      [['delete chain TABLE postrouting-invalid']],
    ],
    [
      'deletes the second set behind the rule that uses it',
      WITH_FROM,
      POLICY,
      ['rules differ'],
      [['flush chain TABLE postrouting', 'delete set TABLE masqueraded-from', ...rules(3)]],
    ],
    [
      'adds exceptions by source before the rule that uses them, and never their complement',
      TABLE,
      NOT_FROM,
      ['rules differ'],
      [
        ['add set TABLE not-masqueraded-from', 'add element TABLE not-masqueraded-from { 10.244.0.0/16 }'],
        ['flush chain TABLE postrouting', ...rules(4)],
      ],
    ],
    [
      'replaces one set of sources by another',
      renderTable(NOT_FROM, OPTIONS),
      policyOf(
        'nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqueradeFromCIDRs: [10.0.0.0/8]\nnonMasqueradeFromCIDRs: [10.128.0.0/9]\n',
      ),
      ['rules differ'],
      [
        ['add set TABLE masqueraded-from', 'add element TABLE masqueraded-from { 10.0.0.0/9 }'],
        ['flush chain TABLE postrouting', 'delete set TABLE not-masqueraded-from', ...rules(4)],
      ],
    ],
    [
      'makes it again beside an interim table if its comment differs',
      { ...TABLE, comment: 'theirs' },
      POLICY,
      ['rules differ'],
      ANEW,
    ],
    [
      'makes it again if a set has user data on which an older nft dies',
      { ...TABLE, sets: TABLE.sets.map((set) => ({ ...set, extra: '030800040400000001' })) },
      POLICY,
      ['rules differ'],
      ANEW,
    ],
    [
      'makes it again if it has a set that no rule names',
      { ...TABLE, sets: WITH_FROM.sets },
      POLICY,
      ['rules differ'],
      ANEW,
    ],
    [
      'makes it again if it has a chain of another name',
      { ...TABLE, chains: [...TABLE.chains, { ...CHAIN, name: 'theirs' }] },
      POLICY,
      ['rules differ'],
      ANEW,
    ],
    ['makes it again if it has other objects', { ...TABLE, others: 1 }, POLICY, ['rules differ'], ANEW],
    [
      'makes it again if the set has an element for all addresses',
      { ...TABLE, sets: TABLE.sets.map((set) => ({ ...set, hasOthers: true })) },
      POLICY,
      ['rules differ'],
      ANEW,
    ],
    ['makes it again if it is dormant', { ...TABLE, flags: ['dormant'] }, POLICY, ['rules differ'], ANEW],
  ] as const)
    it(what, () => {
      const ruleset = { family: 'IPv4', table: had as Table | undefined, interim: undefined } as const;
      const plan = planTable(ruleset, policy, OPTIONS);
      assert.deepEqual(plan?.draft.found, found);
      assert.deepEqual(plan && wordsOf(plan.draft.script), commands);
      assert.equal(plan?.draft.remakes, found && (commands === ANEW || had === undefined));
    });

  it('makes the whole table again if asked to, but not if nothing differs', () => {
    const more = policyOf('nonMasqueradeCIDRs: [10.0.0.0/8, 192.168.0.0/16]\n');
    const table = renderTable(more, OPTIONS);
    for (const interim of [undefined, TABLE]) {
      const ruleset = { family: 'IPv4', table, interim } as const;
      const plan = planTable(ruleset, POLICY, OPTIONS, true);
      const [first = [], ...others] = ANEW;
      const begin = interim === undefined ? first : ['delete table INTERIM', ...first];
      assert.deepEqual(plan && wordsOf(plan.draft.script), [begin, ...others]);
    }
    assert.equal(planTable({ family: 'IPv4', table, interim: undefined }, more, OPTIONS, true), undefined);
  });

  it('says what comes, goes and stays, and asks later only for elements that come alone', () => {
    const planFrom = (table: Table, policy = POLICY) =>
      planTable({ family: 'IPv4', table, interim: undefined }, policy, OPTIONS);
    const other = policyOf('nonMasqueradeCIDRs: [10.0.0.0/9, 172.16.0.0/12, 192.168.0.0/16]\n');
    const before = policyOf('nonMasqueradeCIDRs: [10.0.0.0/8, 172.16.0.0/12]\n');
    const plan = planFrom(renderTable(before, OPTIONS), other);
    const [added, removed] = [['element 10.0.0.0/9', 'element 192.168.0.0/16'], ['element 10.0.0.0/8']];
    assert.deepEqual(
      [plan?.draft.added, plan?.draft.removed].map((lines) => lines?.map(({ text }) => text)),
      [added, removed],
    );
    assert.deepEqual(
      plan?.draft.added.map(({ entry }) => entry),
      [0, 2].map((index) => renderTable(other, OPTIONS).segments[index]?.entry),
    );
    assert.equal(plan?.draft.kept, linesOf(TABLE).length + 1);
    const ranges = plan?.added?.map(({ first, last }) => ({ first, last }));
    assert.deepEqual(ranges, rangesOf('10.0.0.0/9', '192.168.0.0/16'));
    for (const table of [
      { ...TABLE, chains: [] },
      { ...TABLE, others: 1 },
    ])
      assert.equal(planFrom(table, other)?.added, undefined);
  });

  it('removes an interim table that an interrupted sync has left, after all else', () => {
    const interim = TABLE;
    const last = ['delete table INTERIM'];
    for (const [table, commands] of [
      [TABLE, [last]],
      [undefined, [...(MADE_AGAIN[1] ?? []), last]],
    ] as const) {
      const plan = planTable({ family: 'IPv4', table, interim }, POLICY, OPTIONS);
      assert.deepEqual(plan && wordsOf(plan.draft.script), commands);
      assert.ok(plan?.draft.found.includes('table left over'));
    }
    const removal = planRemoval({ family: 'IPv4', table: TABLE, interim });
    assert.deepEqual(removal && wordsOf(removal.draft.script), [['delete table TABLE', ...last]]);
  });

  it('touches no table of another program, and none that another process owns', () => {
    const theirs = {
      ...TABLE,
      comment: 'x',
      sets: [],
      chains: TABLE.chains.map((chain) => ({ ...chain, comment: 'x', rules: [] })),
    };
    const ruleset = (table: Table) => ({ family: 'IPv4', table, interim: undefined }) as const;
    assert.throws(() => planTable(ruleset(theirs), POLICY, OPTIONS), {
      failure: 'refused',
      message: /not the agent's/,
    });
    assert.equal(planRemoval(ruleset(theirs)), undefined);
    const owned = { ...TABLE, flags: ['owner'], owner: 4711 };
    for (const plan of [planTable, planRemoval] as const)
      assert.throws(() => plan(ruleset(owned), POLICY, OPTIONS), {
        failure: 'refused',
        message: /port 4711/,
      });
  });
});

describe('the dataplane of nftables', () => {
  const netlinkOf = (ranges: readonly string[]) =>
    fakeNetlink({
      generation: async () => ({ id: 1, process: 'nft' }),
      table: async ({ table }) =>
        table === 'ip-masq-agent' ? { flags: 0, use: 2, handle: 1, comment: `${TABLE.comment}` } : undefined,
      sets: async () => [
        {
          name: 'not-masqueraded',
          handle: 2,
          flags: 4,
          keyType: 7,
          keyBytes: 4,
          expressions: [{ name: 'counter', packets: 0n, bytes: 0n }],
          comment: 'ip-masq-agent: what the config leaves alone',
        },
      ],
      elements: async () => {
        const read = rangesOf(...ranges).map((range) => ({ ...range, packets: 7n }));
        return { ranges: read, catchAll: false, hasOthers: false, generations: [1] };
      },
      chain: async ({ chain }) =>
        chain === 'postrouting'
          ? {
              protocol: 2,
              table: 'ip-masq-agent',
              name: chain,
              use: 3,
              hook: { type: 'nat', number: 4, priority: 110, policy: 1 },
              comment: 'ip-masq-agent: what is masqueraded',
            }
          : undefined,
      rules: async () => [],
    });

  it('counts the elements that the policy asks for', async () => {
    const dataplane = openNftables(OPTIONS, { netlink: netlinkOf(['10.0.0.0/8', '11.0.0.0/8']) });
    const { incarnation, rules } = await dataplane.count(POLICY);
    assert.deepEqual(
      [incarnation, rules.map(({ ruleId, packets }) => [ruleId, packets])],
      [1, [['2 10.0.0.0/8', 7n]]],
    );
  });

  it('tells a type of chain that the kernel does not know from a table that is gone', async () => {
    const message = 'cannot add chain ip ip-masq-agent-interim postrouting: ENOENT';
    const refuse = async () => {
      throw new NetlinkError('changed', message, 'ENOENT', {
        request: 0,
        offset: undefined,
        expression: undefined,
      });
    };
    for (const [isThere, failure] of [
      [true, 'unsupported'],
      [false, 'raced'],
    ] as const) {
      let written = false;
      const netlink = fakeNetlink({
        generation: async () => ({ id: 1, process: 'nft' }),
        table: async () => (written && isThere ? { flags: 0, use: 0, handle: 1, comment: '' } : undefined),
        commit: async (changes) => {
          written = true;
          if (changes.some(({ kind }) => kind === 'add chain')) await refuse();
        },
      });
      const plan = (await openNftables(OPTIONS, { netlink }).observe('IPv4')).plan(POLICY);
      await assert.rejects(plan?.apply() ?? assert.fail(), { failure });
    }
  });

  it('needs netlink', async () => {
    assert.throws(() => openNftables(OPTIONS, {}), { failure: 'missing', message: /--netlink=off/ });
    const openRequests = () => {
      throw new NetlinkError('unsupported', 'cannot load the native module: x');
    };
    const netlink = new Netlink({ openRequests, openWatch: () => assert.fail() }, () => {});
    await assert.rejects(netlink.use(async () => {}));
    assert.throws(() => openNftables(OPTIONS, { netlink }), {
      failure: 'missing',
      message: /native module: x$/,
    });
  });
});

it('failures of the kernel say what it lacks, and tell a lack from a race', () => {
  const at = (expression?: string) => ({ request: 3, offset: undefined, expression });
  for (const [code, failure, place, expected, said] of [
    ['ENOENT', 'changed', at('masq'), 'unsupported', /lacks nft_masq: x/],
    ['ENOTSUP', 'unsupported', at('fib'), 'unsupported', /lacks nft_fib_ipv4/],
    ['ENOENT', 'changed', at('lookup'), 'raced', /^x$/],
    ['EEXIST', 'changed', at(), 'raced', /^x$/],
    ['ENOTSUP', 'unsupported', at(), 'refused', /^x$/],
    ['EINVAL', 'failed', undefined, 'unsupported', /^x$/],
    ['EPROTONOSUPPORT', 'unsupported', undefined, 'unsupported', /^x$/],
    // No netlink in this process: there may be rules all the same.
    [undefined, 'unsupported', undefined, 'refused', /^x$/],
    ['EAFNOSUPPORT', 'unsupported', undefined, 'refused', /^x$/],
    ['EINVAL', 'failed', at(), 'refused', /^x$/],
    ['EMSGSIZE', 'failed', undefined, 'refused', /^x$/],
    ['EPERM', 'denied', undefined, 'denied', /^x$/],
    ['EBUSY', 'failed', at(), 'busy', /^x$/],
  ] as const) {
    const error: DataplaneError = dataplaneError(new NetlinkError(failure, 'x', code, place));
    assert.equal(error.failure, expected, code);
    assert.match(error.message, said);
    assert.notEqual(error.remedy, '');
  }
});

it('user data has comments as every nft reads them, and what else there is', () => {
  for (const kind of ['table', 'chain', 'rule', 'set'] as const)
    assert.deepEqual(readUserData(kind, writeUserData(kind, 'a comment')), { comment: 'a comment' });
  assert.equal(writeUserData('rule', 'x').toString('hex'), '00027800');
  for (const [kind, bytes, expected] of [
    // Without a zero at its end, every nft dies on it.
    ['rule', '000178', { extra: '000178' }],
    // A set with `type` as nft writes it since 1.1.2, on which an older one dies.
    ['set', '0004020000000308000404000000010007027800', { comment: 'x', extra: '03080004040000000100' }],
    ['set', '000402000000', {}],
    ['table', '00ff', { extra: '00ff' }],
  ] as const)
    assert.deepEqual(readUserData(kind, Buffer.from(bytes, 'hex')), expected, bytes);
});
