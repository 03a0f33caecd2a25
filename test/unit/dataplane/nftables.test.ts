import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { formatRange } from '../../../lib/cidr/ranges.ts';
import type { DataplaneError } from '../../../lib/dataplane/error.ts';
import { Netlink, type Requests } from '../../../lib/dataplane/netlink.ts';
import { dataplaneError } from '../../../lib/dataplane/nftables/failure.ts';
import { openNftables } from '../../../lib/dataplane/nftables/nftables.ts';
import { planRemoval, planTable, type TablePlan } from '../../../lib/dataplane/nftables/plan.ts';
import { linesOf, type Table } from '../../../lib/dataplane/nftables/ruleset.ts';
import { type PolicyTable, renderTable, withNames } from '../../../lib/dataplane/nftables/table.ts';
import { nameOf } from '../../../lib/netlink/change.ts';
import { NetlinkError } from '../../../lib/netlink/error.ts';
import { readUserData, writeUserData } from '../../../lib/netlink/user-data.ts';
import { compilePolicy } from '../../../lib/policy/policy.ts';
import { rangeFrom } from '../cidr/support.ts';
import { mergedOf } from '../config/support.ts';
import { fakeNetlink } from './support.ts';

const OPTIONS = { chain: 'X', randomFully: false, toPorts: [] };

function policyOf(text: string) {
  return compilePolicy(mergedOf({ x: `masqLinkLocal: true\n${text}` }), 'IPv4');
}

const POLICY = policyOf('nonMasqueradeCIDRs: [10.0.0.0/8]\n');
const FROM = policyOf('nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqueradeFromCIDRs: [10.244.0.0/16]\n');
const TABLE = renderTable(POLICY, OPTIONS);
const WITH_FROM = renderTable(FROM, OPTIONS);
function rangesOf(...texts: readonly string[]) {
  return texts.map(rangeFrom);
}

/** Each command in words, transaction by transaction. */
function wordsOf({ transactions, cleanup }: TablePlan): readonly (readonly string[])[] {
  return [...transactions, ...cleanup.map((change) => [change])].map((changes) =>
    changes.map((change) => {
      const ranges = change.kind === 'add elements' ? change.ranges : [];
      const elements = ranges.map((one) => formatRange('IPv4', one)).join(', ');
      const words = [change.kind, 'TABLE', nameOf(change), elements && `{ ${elements} }`];
      return words.filter((word) => word).join(' ');
    }),
  );
}

const setsOf = ({ sets }: PolicyTable, suffix = '') =>
  sets.flatMap((set) => [
    `add set TABLE ${set.name}${suffix}`,
    `add elements TABLE ${set.name}${suffix} { ${set.ranges.map((one) => formatRange('IPv4', one)).join(', ')} }`,
  ]);
const rulesOf = ({ chains }: PolicyTable) =>
  chains.flatMap(({ name, rules }) => rules.map(() => `add rule TABLE ${name}`));
const chainsOf = (table: PolicyTable) =>
  table.chains.flatMap((chain) => [
    `add chain TABLE ${chain.name}`,
    ...rulesOf({ ...table, chains: [chain] }),
  ]);
const FLUSH = 'flush table TABLE';
const made = (table: PolicyTable) => [
  ['add table TABLE', ...setsOf(table)],
  [FLUSH, ...chainsOf(table)],
];
/** In one transaction. */
const ANEW = [['delete table TABLE', ...(made(TABLE)[0] ?? []), ...chainsOf(TABLE)]];
const RULES = [FLUSH, ...rulesOf(TABLE)];
const [CHAIN] = TABLE.chains;
const [SET] = TABLE.sets;
const [, FROM_SET] = WITH_FROM.sets;
const oldSet = 'delete set TABLE not-masqueraded';

/** Tables in the kernel that have the same elements and differ otherwise, and what is done. */
const OTHERS: Readonly<Record<string, readonly [object, readonly (readonly string[])[]]>> = {
  'replaces a chain whose hook differs': [
    { chains: [{ ...CHAIN, hook: { ...CHAIN?.hook, priority: 100 } }] },
    [[FLUSH, 'delete chain TABLE postrouting', 'add chain TABLE postrouting', ...rulesOf(TABLE)]],
  ],
  'deletes a chain of another name': [
    { chains: [...TABLE.chains, { ...CHAIN, name: 'theirs' }] },
    [[FLUSH, 'delete chain TABLE theirs', ...rulesOf(TABLE)]],
  ],
  'deletes objects': [
    { objects: [{ name: 'c', objectType: 1 }] },
    [[FLUSH, 'delete object TABLE c', ...rulesOf(TABLE)]],
  ],
  'deletes a set of sources, after the rules that look it up': [
    WITH_FROM,
    [RULES, ['delete set TABLE masqueraded-from']],
  ],
  'deletes a set that no rule looks up': [
    { sets: [...TABLE.sets, { ...SET, name: 'not-masqueraded-2' }] },
    [['delete set TABLE not-masqueraded-2']],
  ],
  'takes another set if one has user data on which an older nft dies': [
    { sets: [{ ...SET, extra: '030800040400000001' }] },
    [setsOf(TABLE, '-2'), RULES, [oldSet]],
  ],
  'takes another set if one has an element for all addresses': [
    { sets: [{ ...SET, hasOthers: true }] },
    [setsOf(TABLE, '-2'), RULES, [oldSet]],
  ],
  'makes it again if it has a flow table or a map': [{ others: 1 }, ANEW],
  'makes it again if it is dormant': [{ flags: ['dormant'] }, ANEW],
};

describe('the plan for a table of nftables', () => {
  const FEWER = policyOf('nonMasqueradeCIDRs: [10.0.0.0/9, 192.168.0.0/16]\n');
  const ALL_DIFFERENT = policyOf('nonMasqueradeCIDRs: [10.0.0.0/9]\nmasqueradeFromCIDRs: [10.245.0.0/16]\n');
  const renders = {
    fewer: renderTable(FEWER, OPTIONS),
    different: renderTable(ALL_DIFFERENT, OPTIONS),
  } as const;
  const leftover = {
    ...TABLE,
    sets: [...TABLE.sets, ...renders.fewer.sets.map((set) => ({ ...set, name: 'not-masqueraded-7' }))],
  };
  for (const [what, had, policy, found, commands] of [
    ['is nothing if it is the same', TABLE, POLICY, undefined, undefined],
    [
      'is nothing if the table itself has another comment, or other user data',
      { ...TABLE, comment: 'theirs', extra: '010178' },
      POLICY,
      undefined,
      undefined,
    ],
    [
      'does not make it again for its comment if something else differs',
      { ...TABLE, comment: undefined, chains: [{ ...CHAIN, rules: [] }] },
      POLICY,
      ['rules differ'],
      [RULES],
    ],
    ['makes it, the sets before the rules', undefined, POLICY, ['table missing'], made(TABLE)],
    [
      'takes another set for other elements',
      TABLE,
      FEWER,
      ['elements differ'],
      [setsOf(renders.fewer, '-2'), RULES, [oldSet]],
    ],
    [
      'takes a set that is left over and right, whatever its number, and deletes the other',
      leftover,
      FEWER,
      ['rules differ', 'elements differ'],
      [RULES, [oldSet]],
    ],
    [
      'takes the next free name',
      { ...TABLE, sets: [...TABLE.sets, { ...SET, name: 'not-masqueraded-2', properties: ['type 13'] }] },
      FEWER,
      ['rules differ', 'elements differ'],
      [setsOf(renders.fewer, '-3'), RULES, [oldSet], [`${oldSet}-2`]],
    ],
    [
      'adds a set of sources that comes',
      TABLE,
      FROM,
      ['rules differ'],
      [setsOf({ ...WITH_FROM, sets: FROM_SET ? [FROM_SET] : [] }), [FLUSH, ...rulesOf(WITH_FROM)]],
    ],
    [
      'changes both sets at the same moment',
      WITH_FROM,
      ALL_DIFFERENT,
      ['elements differ'],
      [
        setsOf(renders.different, '-2'),
        [FLUSH, ...rulesOf(WITH_FROM)],
        [oldSet],
        ['delete set TABLE masqueraded-from'],
      ],
    ],
    ...Object.entries(OTHERS).map(
      ([what, [own, commands]]) => [what, { ...TABLE, ...own }, POLICY, ['rules differ'], commands] as const,
    ),
  ] as const)
    it(what, () => {
      const plan = planTable(had as Table | undefined, policy, OPTIONS);
      assert.deepEqual(plan?.draft.found, found);
      assert.deepEqual(plan && wordsOf(plan), commands);
    });

  it('says what comes, goes and stays', () => {
    const other = policyOf('nonMasqueradeCIDRs: [10.0.0.0/9, 172.16.0.0/12, 192.168.0.0/16]\n');
    const before = policyOf('nonMasqueradeCIDRs: [10.0.0.0/8, 172.16.0.0/12]\n');
    const plan = planTable(renderTable(before, OPTIONS), other, OPTIONS);
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
  });

  it('touches no table of another program, and none that another process owns', () => {
    const chains = TABLE.chains.map((chain) => ({ ...chain, comment: 'x', rules: [] }));
    const theirs = { ...TABLE, comment: 'x', sets: [], chains };
    const refused = { failure: 'blocked', message: /not the agent's/ };
    assert.throws(() => planTable(theirs, POLICY, OPTIONS), refused);
    assert.equal(planRemoval(theirs), undefined);
    const owned = { ...TABLE, flags: ['owner'], owner: 4711 };
    for (const plan of [planTable, planRemoval] as const)
      assert.throws(() => plan(owned, POLICY, OPTIONS), { failure: 'blocked', message: /port 4711/ });
  });
});

describe('the dataplane of nftables', () => {
  const SET_REPLY = {
    name: 'not-masqueraded',
    handle: 2,
    flags: 4,
    keyType: 7,
    keyBytes: 4,
    expressions: [{ name: 'counter', packets: 0n, bytes: 0n }],
    comment: 'ip-masq-agent: what the config leaves alone',
  } as const;
  const POSTROUTING = {
    protocol: 2,
    table: 'ip-masq-agent',
    name: 'postrouting',
    use: 3,
    hook: { type: 'nat', number: 4, priority: 110, policy: 1 },
    comment: 'ip-masq-agent: what is masqueraded',
  };
  /** A kernel with the table, whose set holds these ranges, and whose chain no rule. */
  const netlinkOf = (ranges: readonly string[], requests: Partial<Requests> = {}) =>
    fakeNetlink({
      generation: async () => ({ id: 1, process: 'nft' }),
      table: async ({ table }) =>
        table === 'ip-masq-agent' ? { flags: 0, use: 2, handle: 1, comment: `${TABLE.comment}` } : undefined,
      sets: async () => [SET_REPLY],
      elements: async () => {
        const read = rangesOf(...ranges).map((range) => ({ ...range, packets: 7n }));
        return { ranges: read, catchAll: false, hasOthers: false };
      },
      chain: async ({ chain }) => (chain === 'postrouting' ? POSTROUTING : undefined),
      rules: async () => [],
      ...requests,
    });

  it('counts the elements that the policy asks for', async () => {
    const dataplane = openNftables(OPTIONS, { netlink: netlinkOf(['10.0.0.0/8', '11.0.0.0/8']) });
    const counts = await dataplane.count(POLICY);
    assert.deepEqual(
      counts.map(({ entry, packets }) => [entry?.prefix.text, packets]),
      [['10.0.0.0/8', 7n]],
    );
  });

  it('only warns if the kernel does not delete the old set, and tries again with the next change', async () => {
    const committed: string[] = [];
    const has = (kind: string) => committed.includes(kind);
    const { rules: wanted = [] } = withNames(TABLE, () => 'not-masqueraded-2').chains[0] ?? {};
    const netlink = netlinkOf([], {
      generation: async () => ({ id: 1 + committed.length, process: 'nft' }),
      commit: async ([change]) => {
        committed.push(change?.kind ?? '');
        if (change?.kind === 'delete set')
          throw new NetlinkError('failed', 'EBUSY', 'EBUSY', { request: 0, offset: undefined });
      },
      sets: async () => [
        SET_REPLY,
        ...(has('add set') ? [{ ...SET_REPLY, name: 'not-masqueraded-2', handle: 3 }] : []),
      ],
      elements: async ({ set }) => {
        const ranges = rangesOf(set === SET_REPLY.name ? '10.0.0.0/9' : '10.0.0.0/8');
        return {
          ranges: ranges.map((range) => ({ ...range, packets: 0n })),
          catchAll: false,
          hasOthers: false,
        };
      },
      table: async () => ({ flags: 0, use: has('add set') ? 3 : 2, handle: 1, comment: TABLE.comment }),
      rules: async () =>
        (has('flush table') ? wanted : []).map(({ expressions, comment }, handle) => {
          return { chain: 'postrouting', handle, packets: undefined, expressions, comment };
        }),
    });
    const dataplane = openNftables(OPTIONS, { netlink });
    await (await dataplane.observe('IPv4')).plan(POLICY)?.apply();
    assert.deepEqual(committed, ['add set', 'flush table', 'delete set']);
    const observed = await dataplane.observe('IPv4');
    assert.equal(observed.plan(POLICY), undefined);
    const [text = '', ...more] = observed.describeUndeletable(POLICY);
    assert.match(text, /table ip ip-masq-agent .*EBUSY/);
    assert.deepEqual(more, []);
    await observed.plan(FROM)?.apply();
    assert.deepEqual(committed.slice(3), ['add set', 'flush table', 'delete set']);
    // Another process knows nothing of it.
    const another = await openNftables(OPTIONS, { netlink }).observe('IPv4');
    assert.notEqual(another.plan(POLICY), undefined);
  });

  it('needs netlink', async () => {
    assert.throws(() => openNftables(OPTIONS, {}), {
      failure: 'missing',
      message: /netlink, which does not work here: there is none/,
    });
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
  const at = (part?: string) => ({ request: 3, offset: undefined, part });
  for (const [code, failure, place, expected, said] of [
    ['ENOENT', 'changed', at('masq'), 'unsupported', /lacks nft_masq: x/],
    ['ENOTSUP', 'unsupported', at('fib'), 'unsupported', /lacks nft_fib_ipv4/],
    ['ENOENT', 'changed', at('chain type'), 'unsupported', /lacks nft_chain_nat: x/],
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
    ['ENOBUFS', 'failed', undefined, 'exhausted', /^x$/],
    ['ENOMEM', 'failed', at(), 'exhausted', /^x$/],
    ['EINTR', 'interrupted', undefined, 'busy', /^x$/],
    ['EPERM', 'denied', undefined, 'denied', /^x$/],
    ['EBUSY', 'failed', at(), 'busy', /^x$/],
    ['EMFILE', 'failed', undefined, 'exhausted', /^x$/],
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
