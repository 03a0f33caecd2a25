import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { namesIn, parseNftRule } from '../../../lib/foreign/nft-rule.ts';
import { contextOf, textOf } from './support.ts';

const daddr = { payload: { protocol: 'ip', field: 'daddr' } };
const saddr = { payload: { protocol: 'ip', field: 'saddr' } };
const mark = { meta: { key: 'mark' } };
const oifname = { meta: { key: 'oifname' } };
const prefix = (addr: string, len: number) => ({ prefix: { addr, len } });
const match = (left: unknown, op: string, right: unknown) => ({ match: { op, left, right } });
const fib = { fib: { result: 'type', flags: ['daddr'] } };
const ten = prefix('10.0.0.0', 8);

const NAMED = new Map<string, readonly unknown[]>([
  ['nomasq', ['1.2.3.4', ten, { elem: { val: { range: ['172.16.0.0', '172.16.0.3'] }, comment: 'x' } }]],
  ['empty', []],
  ['byPort', [{ concat: ['10.0.0.1', 80] }]],
  ['jumps', [['docker0', { jump: { target: 'in__docker0' } }]]],
  [
    'networks',
    [
      [{ elem: { val: ten } }, { goto: { target: 'ten' } }],
      ['1.2.3.4', { accept: null }],
    ],
  ],
]);

/** Per rule that it makes: destinations | conditions | outcome. */
const CASES: readonly { readonly expr: readonly unknown[]; readonly rules: readonly string[] }[] = [
  { expr: [{ masquerade: null }], rules: ['all | | masquerades'] },
  {
    expr: [{ counter: { packets: 1, bytes: 2 } }, { masquerade: { flags: 'fully-random' } }],
    rules: ['all | | masquerades'],
  },
  { expr: [{ snat: { addr: '192.0.2.1' } }], rules: ['all | | masquerades'] },
  { expr: [{ snat: { family: 'ip6', addr: '2001:db8::1' } }], rules: [' | | masquerades'] },
  { expr: [{ accept: null }], rules: ['all | | ends'] },
  { expr: ['accept'], rules: ['all | | ends'] },
  { expr: [{ return: null }], rules: ['all | | returns'] },
  { expr: [{ jump: { target: 'x' } }], rules: ['all | | jump x'] },
  { expr: [{ goto: { target: 'x' } }], rules: ['all | | goto x'] },
  { expr: [{ log: { prefix: 'x' } }], rules: ['all | | goes on'] },
  { expr: [{ mangle: { key: mark, value: 1 } }], rules: ['all | | goes on'] },
  { expr: [{ mangle: { key: saddr, value: '1.2.3.4' } }], rules: ['all | | goes on'] },
  { expr: [{ mangle: { key: { ct: { key: 'mark' } }, value: 1 } }], rules: ['all | | goes on'] },
  {
    expr: [{ limit: { rate: 1, per: 'second' } }, { masquerade: null }],
    rules: ['all | limit 1 second | masquerades'],
  },
  { expr: [{ 'future thing': {} }, { accept: null }], rules: ['all | future thing | ends'] },
  { expr: [match(daddr, '==', ten), { accept: null }], rules: ['10.0.0.0/8 | | ends'] },
  { expr: [match(daddr, '!=', prefix('128.0.0.0', 1)), { accept: null }], rules: ['0.0.0.0/1 | | ends'] },
  { expr: [match(daddr, '==', '10.1.2.3'), { accept: null }], rules: ['10.1.2.3/32 | | ends'] },
  {
    expr: [match(daddr, '==', { range: ['10.0.0.0', '10.0.0.5'] }), { accept: null }],
    rules: ['10.0.0.0/30 10.0.0.4/31 | | ends'],
  },
  {
    expr: [match(daddr, '==', { set: [ten, '1.1.1.1'] }), { accept: null }],
    rules: ['1.1.1.1/32 10.0.0.0/8 | | ends'],
  },
  {
    expr: [match(daddr, '==', '@nomasq'), { return: null }],
    rules: ['1.2.3.4/32 10.0.0.0/8 172.16.0.0/30 | | returns'],
  },
  { expr: [match(daddr, '==', '@empty'), { return: null }], rules: [' | | returns'] },
  { expr: [match(daddr, '!=', '@empty'), { return: null }], rules: ['all | | returns'] },
  { expr: [match(daddr, '==', '@unknown'), { return: null }], rules: ['all | ip daddr @unknown | returns'] },
  {
    expr: [
      match({ concat: [daddr, { payload: { protocol: 'tcp', field: 'dport' } }] }, '==', '@byPort'),
      { accept: null },
    ],
    rules: ['all | ip daddr . tcp dport @byPort | ends'],
  },
  {
    expr: [match({ '&': [daddr, '255.0.0.255'] }, '==', '10.0.0.1'), { accept: null }],
    rules: ['all | ip daddr & 255.0.0.255 10.0.0.1 | ends'],
  },
  { expr: [match(daddr, '<', '10.0.0.1'), { accept: null }], rules: ['all | ip daddr < 10.0.0.1 | ends'] },
  {
    expr: [match({ payload: { protocol: 'ip6', field: 'daddr' } }, '==', 'fd00::1'), { accept: null }],
    rules: [' | | ends'],
  },
  { expr: [match({ meta: { key: 'nfproto' } }, '==', 'ipv4'), { accept: null }], rules: ['all | | ends'] },
  { expr: [match({ meta: { key: 'nfproto' } }, '==', 'ipv6'), { accept: null }], rules: [' | | ends'] },
  {
    expr: [match(saddr, '==', ten), match(oifname, '!=', 'docker0'), { masquerade: null }],
    rules: ['all | ip saddr 10.0.0.0/8, oifname != docker0 | masquerades'],
  },
  { expr: [match(fib, '!=', 'local'), { jump: { target: 'x' } }], rules: ['all | | jump x'] },
  { expr: [match(fib, '==', 'local'), { accept: null }], rules: [' | | ends'] },
  {
    expr: [match({ fib: { result: 'type', flags: 'daddr' } }, '==', 'local'), { accept: null }],
    rules: [' | | ends'],
  },
  {
    expr: [match({ fib: { result: 'type', flags: ['saddr'] } }, '==', 'local'), { accept: null }],
    rules: ['all | fib type saddr local | ends'],
  },
  {
    expr: [match({ '&': [mark, 0x4000] }, '==', 0), { return: null }],
    rules: ['all | | returns'],
  },
  {
    expr: [match({ '&': [mark, 0x4000] }, '!=', 0x4000), { return: null }],
    rules: ['all | | returns'],
  },
  { expr: [match(mark, '==', 0x4000), { masquerade: null }], rules: [' | | masquerades'] },
  { expr: [match(mark, '==', 5), { return: null }], rules: ['all | mark 0x5 | returns'] },
  {
    expr: [match({ ct: { key: 'state' } }, 'in', ['established', 'related']), { accept: null }],
    rules: ['all | ct state established,related | ends'],
  },
  {
    expr: [
      { xt: { type: 'match', name: 'comment' } },
      { xt: { type: 'match', name: 'addrtype' } },
      { xt: { type: 'target', name: 'MASQUERADE' } },
    ],
    rules: ['all | xt match addrtype | masquerades'],
  },
  { expr: [{ xt: null }], rules: ['all | xt | goes on'] },
  { expr: [{ vmap: { key: oifname, data: '@jumps' } }], rules: ['all | oifname docker0 | jump in__docker0'] },
  {
    expr: [{ vmap: { key: daddr, data: '@networks' } }],
    rules: ['10.0.0.0/8 | | goto ten', '1.2.3.4/32 | | ends'],
  },
  {
    expr: [
      {
        vmap: {
          key: daddr,
          data: {
            set: [
              ['10.0.0.1', { drop: null }],
              ['*', { jump: { target: 'a' } }],
            ],
          },
        },
      },
    ],
    rules: ['10.0.0.1/32 | | else', 'all | ip daddr in no other element | jump a'],
  },
];

describe('a rule of nft -j', () => {
  for (const { expr, rules } of CASES) {
    it(`is understood: ${JSON.stringify(expr)}`, () => {
      const parsed = parseNftRule(contextOf(NAMED), { chain: 'c', expr });
      const texts = parsed.map(({ destinations, conditions, outcome }) => {
        const target = 'chain' in outcome ? ` ${outcome.chain}` : '';
        const asked = conditions.map(({ text }) => text).join(', ');
        return `${textOf(destinations)} |${asked === '' ? '' : ` ${asked}`} | ${outcome.kind}${target}`;
      });
      assert.deepEqual(texts, rules);
    });
  }

  it('names the sets and maps that it needs, those of other fields excepted', () => {
    const expr = [match(daddr, '!=', '@a'), match(saddr, '==', '@b'), { vmap: { key: oifname, data: '@c' } }];
    assert.deepEqual(namesIn({ expr }), [
      { kind: 'set', name: 'a' },
      { kind: 'map', name: 'c' },
    ]);
  });

  for (const broken of [null, 7, {}, { expr: 'x' }, { expr: [null, 7, [], { match: 5 }, { vmap: null }] }]) {
    it(`is no reason to fail where it is not one: ${JSON.stringify(broken)}`, () => {
      const kinds = parseNftRule(contextOf(NAMED), broken).map(({ outcome }) => outcome.kind);
      assert.deepEqual(kinds, ['goes on']);
      assert.deepEqual(namesIn(broken), []);
    });
  }
});

describe('a match of nft -j', () => {
  for (const [left, op, right, isSteady] of [
    [saddr, '==', ten, true],
    [saddr, '!=', { range: ['1.2.3.4', '1.2.3.9'] }, true],
    [oifname, '!=', 'docker0', true],
    [{ payload: { protocol: 'tcp', field: 'dport' } }, '==', 80, true],
    [saddr, '==', '@dynamic', false],
    [saddr, '==', { set: [ten] }, false],
    [saddr, '<', '1.2.3.4', true],
    [{ payload: { base: 'nh', offset: 0, len: 8 } }, '==', 1, false],
    [{ ct: { key: 'state' } }, 'in', 'new', false],
    [{ numgen: { mode: 'random', mod: 2, offset: 0 } }, '==', 0, false],
    [{ meta: { key: 'skuid' } }, '==', 1, false],
    [mark, '==', 1, false],
  ] as const) {
    it(`asks what a packet answers ${isSteady ? 'alike each time' : 'anyhow'}: ${JSON.stringify(left)} ${op} ${JSON.stringify(right)}`, () => {
      const [rule] = parseNftRule(contextOf(), { expr: [match(left, op, right)] });
      const steady = rule?.conditions.map((condition) => condition.isSteady);
      assert.deepEqual(steady, [isSteady]);
    });
  }
});
