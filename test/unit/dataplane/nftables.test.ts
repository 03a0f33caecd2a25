import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { formatRange, parseRange } from '../../../lib/cidr/ranges.ts';
import type { DataplaneError } from '../../../lib/dataplane/error.ts';
import { Netlink, type Requests } from '../../../lib/dataplane/netlink.ts';
import { dataplaneError } from '../../../lib/dataplane/nftables/failure.ts';
import { openNftables } from '../../../lib/dataplane/nftables/nftables.ts';
import { planRemoval, planTable } from '../../../lib/dataplane/nftables/plan.ts';
import { linesOf, type Table } from '../../../lib/dataplane/nftables/ruleset.ts';
import { type PolicyTable, renderTable } from '../../../lib/dataplane/nftables/table.ts';
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

/** Makes a table: its sets before its chains. */
function madeAs(name: string, { sets, chains }: PolicyTable) {
  return [
    [
      `add table ${name}`,
      ...sets.flatMap((set) => [
        `add set ${name} ${set.name}`,
        `add element ${name} ${set.name} { ${set.ranges.map((one) => formatRange('IPv4', one)).join(', ')} }`,
      ]),
    ],
    chains.flatMap((chain) => [
      `add chain ${name} ${chain.name}`,
      ...chain.rules.map(() => `add rule ${name} ${chain.name}`),
    ]),
  ];
}

/** Makes a table again beside an interim one. */
function anew(table: PolicyTable) {
  const [sets = [], chains = []] = madeAs('TABLE', table);
  return [...madeAs('INTERIM', table), ['delete table TABLE', ...sets], chains, ['delete table INTERIM']];
}

const ANEW = anew(TABLE);

const rulesetOf = (table: Table | undefined, interim?: Table) =>
  ({ family: 'IPv4', table, interim }) as const;

/** Tables in the kernel that are made again beside an interim one, although they have the same elements, and why. */
const MADE_AGAIN: Readonly<Record<string, object>> = {
  'the hook of a chain differs': { chains: [{ ...CHAIN, hook: { ...CHAIN?.hook, priority: 100 } }] },
  'the chain of packets that NAT does not see goes': renderTable(POLICY, {
    ...OPTIONS,
    invalidPackets: 'drop',
  }),
  'a set of sources goes': WITH_FROM,
  'its comment differs': { comment: 'theirs' },
  'a set has user data on which an older nft dies': {
    sets: TABLE.sets.map((set) => ({ ...set, extra: '030800040400000001' })),
  },
  'it has a set that no rule names': { sets: WITH_FROM.sets },
  'it has a chain of another name': { chains: [...TABLE.chains, { ...CHAIN, name: 'theirs' }] },
  'it has other objects': { others: 1 },
  'the set has an element for all addresses': {
    sets: TABLE.sets.map((set) => ({ ...set, hasOthers: true })),
  },
  'it is dormant': { flags: ['dormant'] },
};

describe('the plan for a table of nftables', () => {
  const OTHER_SOURCES = policyOf('nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqueradeFromCIDRs: [10.245.0.0/16]\n');
  const ALL_DIFFERENT = policyOf('nonMasqueradeCIDRs: [10.0.0.0/9]\nmasqueradeFromCIDRs: [10.245.0.0/16]\n');
  for (const [what, had, policy, found, commands] of [
    ['is nothing if it is the same', TABLE, POLICY, undefined, undefined],
    ['makes it, the sets before the rules', undefined, POLICY, ['table missing'], madeAs('TABLE', TABLE)],
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
      'changes single elements of the second set',
      WITH_FROM,
      OTHER_SOURCES,
      ['elements differ'],
      [
        [
          'delete element TABLE masqueraded-from { 10.244.0.0/16 }',
          'add element TABLE masqueraded-from { 10.245.0.0/16 }',
        ],
      ],
    ],
    [
      'writes the rules of a chain again',
      { ...TABLE, chains: [{ ...CHAIN, rules: [] }] },
      POLICY,
      ['rules differ'],
      [['flush chain TABLE postrouting', ...Array<string>(3).fill('add rule TABLE postrouting')]],
    ],
    ['makes it again if a set of sources comes', TABLE, FROM, ['rules differ'], anew(WITH_FROM)],
    [
      'makes it again if the elements of both sets differ',
      WITH_FROM,
      ALL_DIFFERENT,
      ['elements differ'],
      anew(renderTable(ALL_DIFFERENT, OPTIONS)),
    ],
    ...Object.entries(MADE_AGAIN).map(
      ([why, own]) =>
        [`makes it again if ${why}`, { ...TABLE, ...own }, POLICY, ['rules differ'], ANEW] as const,
    ),
  ] as const)
    it(what, () => {
      const plan = planTable(rulesetOf(had as Table | undefined), policy, OPTIONS);
      assert.deepEqual(plan?.draft.found, found);
      assert.deepEqual(plan && wordsOf(plan.draft.script), commands);
      assert.equal(
        plan?.draft.remakes,
        found && (had === undefined || commands?.some((one) => one[0] === 'delete table INTERIM')),
      );
    });

  it('makes the whole table again if asked to, but not if nothing differs', () => {
    const more = policyOf('nonMasqueradeCIDRs: [10.0.0.0/8, 192.168.0.0/16]\n');
    const table = renderTable(more, OPTIONS);
    for (const interim of [undefined, TABLE]) {
      const plan = planTable(rulesetOf(table, interim), POLICY, OPTIONS, true);
      const [first = [], ...others] = ANEW;
      const begin = interim === undefined ? first : ['delete table INTERIM', ...first];
      assert.deepEqual(plan && wordsOf(plan.draft.script), [begin, ...others]);
    }
    assert.equal(planTable(rulesetOf(table), more, OPTIONS, true), undefined);
  });

  it('says what comes, goes and stays', () => {
    const other = policyOf('nonMasqueradeCIDRs: [10.0.0.0/9, 172.16.0.0/12, 192.168.0.0/16]\n');
    const before = policyOf('nonMasqueradeCIDRs: [10.0.0.0/8, 172.16.0.0/12]\n');
    const table = renderTable(before, OPTIONS);
    const plan = planTable(rulesetOf(table), other, OPTIONS);
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

  it('removes an interim table that an interrupted sync has left, after all else', () => {
    const interim = TABLE;
    const last = ['delete table INTERIM'];
    for (const [table, commands] of [
      [TABLE, [last]],
      [undefined, [...madeAs('TABLE', TABLE), last]],
    ] as const) {
      const plan = planTable(rulesetOf(table, interim), POLICY, OPTIONS);
      assert.deepEqual(plan && wordsOf(plan.draft.script), commands);
      assert.ok(plan?.draft.found.includes('table left over'));
    }
    const removal = planRemoval(rulesetOf(TABLE, interim));
    assert.deepEqual(removal && wordsOf(removal.draft.script), [['delete table TABLE', ...last]]);
  });

  it('touches no table of another program, and none that another process owns', () => {
    const chains = TABLE.chains.map((chain) => ({ ...chain, comment: 'x', rules: [] }));
    const theirs = rulesetOf({ ...TABLE, comment: 'x', sets: [], chains });
    const refused = { failure: 'refused', message: /not the agent's/ };
    assert.throws(() => planTable(theirs, POLICY, OPTIONS), refused);
    assert.equal(planRemoval(theirs), undefined);
    const owned = rulesetOf({ ...TABLE, flags: ['owner'], owner: 4711 });
    for (const plan of [planTable, planRemoval] as const)
      assert.throws(() => plan(owned, POLICY, OPTIONS), { failure: 'refused', message: /port 4711/ });
  });
});

describe('the dataplane of nftables', () => {
  const SET = {
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
      sets: async () => [SET],
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

  for (const [others, isWrittenAgain] of [
    [0, false],
    [1, true],
  ] as const)
    it(`writes ${isWrittenAgain ? '' : 'nothing '}again if the kernel shows other rules and ${others} other programs have changed any`, async () => {
      let id = 1;
      const netlink = netlinkOf(['10.0.0.0/8'], {
        generation: async () => ({ id, process: 'nft' }),
        commit: async () => {
          id += 1 + others;
        },
      });
      const dataplane = openNftables(OPTIONS, { netlink });
      const plan = (await dataplane.observe('IPv4')).plan(POLICY);
      await plan?.apply();
      const observed = await dataplane.observe('IPv4');
      assert.equal(observed.plan(POLICY) !== undefined, isWrittenAgain);
      assert.equal(observed.describeUndeletable(POLICY).length, isWrittenAgain ? 0 : 1);
    });

  it('does not take its own transaction of the other family for that of another program', async () => {
    let id = 1;
    const netlink = netlinkOf(['10.0.0.0/8'], {
      generation: async () => ({ id, process: 'nft' }),
      commit: async () => {
        id += 1;
      },
    });
    const dataplane = openNftables(OPTIONS, { netlink });
    const policies = [POLICY, { ...POLICY, family: 'IPv6', entries: [] }] as const;
    const plans = await Promise.all(
      policies.map(async (policy) => (await dataplane.observe(policy.family)).plan(policy)),
    );
    await Promise.all(plans.map((plan) => plan?.apply()));
    for (const policy of policies)
      assert.equal((await dataplane.observe(policy.family)).plan(policy), undefined, policy.family);
  });

  it('tells a type of chain that the kernel does not know from a table that is gone', async () => {
    const message = 'cannot add chain ip ip-masq-agent-interim postrouting: ENOENT';
    const place = { request: 0, offset: undefined, expression: undefined };
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
          if (changes.some(({ kind }) => kind === 'add chain'))
            throw new NetlinkError('changed', message, 'ENOENT', place);
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
