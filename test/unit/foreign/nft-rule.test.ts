import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { namesIn, parseNftRule } from '../../../lib/foreign/nft-rule.ts';
import { contextOf, meaningOf } from './support.ts';

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

/** What each rule that it makes means. */
const CASES: readonly (readonly [expr: readonly unknown[], ...rules: readonly string[]])[] = [
  [[{ masquerade: null }], 'all | | masquerades'],
  [[{ counter: { packets: 1, bytes: 2 } }, { masquerade: { flags: 'fully-random' } }], 'all | | masquerades'],
  [[{ snat: { addr: '192.0.2.1' } }], 'all | | masquerades'],
  [[{ snat: { family: 'ip6', addr: '2001:db8::1' } }], ' | | masquerades'],
  [[{ accept: null }], 'all | | ends'],
  [['accept'], 'all | | ends'],
  [[{ return: null }], 'all | | returns'],
  [[{ jump: { target: 'x' } }], 'all | | jump x'],
  [[{ goto: { target: 'x' } }], 'all | | goto x'],
  [[{ log: { prefix: 'x' } }], 'all | | goes on'],
  [[{ mangle: { key: mark, value: 1 } }], 'all | | goes on'],
  [[{ mangle: { key: saddr, value: '1.2.3.4' } }], 'all | | goes on'],
  [[{ mangle: { key: { ct: { key: 'mark' } }, value: 1 } }], 'all | | goes on'],
  [[{ limit: { rate: 1, per: 'second' } }, { masquerade: null }], 'all | limit 1 second | masquerades'],
  [[{ 'future thing': {} }, { accept: null }], 'all | future thing | ends'],
  [[match(daddr, '==', ten), { accept: null }], '10.0.0.0/8 | | ends'],
  [[match(daddr, '!=', prefix('128.0.0.0', 1)), { accept: null }], '0.0.0.0/1 | | ends'],
  [[match(daddr, '==', '10.1.2.3'), { accept: null }], '10.1.2.3/32 | | ends'],
  [
    [match(daddr, '==', { range: ['10.0.0.0', '10.0.0.5'] }), { accept: null }],
    '10.0.0.0/30 10.0.0.4/31 | | ends',
  ],
  [[match(daddr, '==', { set: [ten, '1.1.1.1'] }), { accept: null }], '1.1.1.1/32 10.0.0.0/8 | | ends'],
  [[match(daddr, '==', '@nomasq'), { return: null }], '1.2.3.4/32 10.0.0.0/8 172.16.0.0/30 | | returns'],
  [[match(daddr, '==', '@empty'), { return: null }], ' | | returns'],
  [[match(daddr, '!=', '@empty'), { return: null }], 'all | | returns'],
  [[match(daddr, '==', '@unknown'), { return: null }], 'all | ip daddr @unknown | returns'],
  [
    [
      match({ concat: [daddr, { payload: { protocol: 'tcp', field: 'dport' } }] }, '==', '@byPort'),
      { accept: null },
    ],
    'all | ip daddr . tcp dport @byPort | ends',
  ],
  [
    [match({ '&': [daddr, '255.0.0.255'] }, '==', '10.0.0.1'), { accept: null }],
    'all | ip daddr & 255.0.0.255 10.0.0.1 | ends',
  ],
  [[match(daddr, '<', '10.0.0.1'), { accept: null }], 'all | ip daddr < 10.0.0.1 | ends'],
  [[match({ payload: { protocol: 'ip6', field: 'daddr' } }, '==', 'fd00::1'), { accept: null }], ' | | ends'],
  [[match({ meta: { key: 'nfproto' } }, '==', 'ipv4'), { accept: null }], 'all | | ends'],
  [[match({ meta: { key: 'nfproto' } }, '==', 'ipv6'), { accept: null }], ' | | ends'],
  [
    [match(saddr, '==', ten), match(oifname, '!=', 'docker0'), { masquerade: null }],
    'all | ip saddr 10.0.0.0/8, oifname != docker0 | masquerades',
  ],
  [[match(fib, '!=', 'local'), { jump: { target: 'x' } }], 'all | | jump x'],
  [[match(fib, '==', 'local'), { accept: null }], ' | | ends'],
  [[match({ fib: { result: 'type', flags: 'daddr' } }, '==', 'local'), { accept: null }], ' | | ends'],
  [
    [match({ fib: { result: 'type', flags: ['saddr'] } }, '==', 'local'), { accept: null }],
    'all | fib type saddr local | ends',
  ],
  [[match({ '&': [mark, 0x4000] }, '==', 0), { return: null }], 'all | | returns'],
  [[match({ '&': [mark, 0x4000] }, '!=', 0x4000), { return: null }], 'all | | returns'],
  [[match(mark, '==', 0x4000), { masquerade: null }], ' | | masquerades'],
  [[match(mark, '==', 5), { return: null }], 'all | mark 0x5 | returns'],
  [
    [match({ ct: { key: 'state' } }, 'in', ['established', 'related']), { accept: null }],
    'all | ct state established,related | ends',
  ],
  [
    [
      { xt: { type: 'match', name: 'comment' } },
      { xt: { type: 'match', name: 'addrtype' } },
      { xt: { type: 'target', name: 'MASQUERADE' } },
    ],
    'all | xt match addrtype | masquerades',
  ],
  [[{ xt: null }], 'all | xt | goes on'],
  [[{ vmap: { key: oifname, data: '@jumps' } }], 'all | oifname docker0 | jump in__docker0'],
  [[{ vmap: { key: daddr, data: '@networks' } }], '10.0.0.0/8 | | goto ten', '1.2.3.4/32 | | ends'],
  [
    [
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
    '10.0.0.1/32 | | else',
    'all | ip daddr in no other element | jump a',
  ],
];

describe('a rule of nft -j', () => {
  for (const [expr, ...rules] of CASES) {
    it(`is understood: ${JSON.stringify(expr)}`, () => {
      const parsed = parseNftRule(contextOf(NAMED), { chain: 'c', expr });
      assert.deepEqual(parsed.map(meaningOf), rules);
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

  it('is shown as nft writes it, without its counter', () => {
    const expr = [
      match(saddr, '==', ten),
      match(daddr, '!=', prefix('224.0.0.0', 4)),
      { counter: { packets: 1, bytes: 2 } },
      { masquerade: { port: { range: [1024, 2000] }, flags: ['random', 'persistent'] } },
    ];
    const [rule] = parseNftRule(contextOf(), { chain: 'post', expr, comment: 'mine' });
    assert.equal(
      rule?.text,
      'chain post: ip saddr 10.0.0.0/8 ip daddr != 224.0.0.0/4 masquerade 1024-2000 random,persistent comment "mine"',
    );
  });

  for (const [addr, text] of [
    ['192.0.2.1', '192.0.2.1'],
    [{ map: { key: saddr, data: '@m' } }, 'ip saddr map @m'],
    [
      {
        map: {
          key: saddr,
          data: {
            set: [
              [ten, '192.0.2.1'],
              ['1.2.3.4', { range: ['192.0.2.2', '192.0.2.9'] }],
            ],
          },
        },
      },
      'ip saddr map { 10.0.0.0/8 : 192.0.2.1, 1.2.3.4 : 192.0.2.2-192.0.2.9 }',
    ],
  ] as const) {
    it(`is shown with its addresses: ${text}`, () => {
      const [rule] = parseNftRule(contextOf(), { chain: 'post', expr: [{ snat: { addr } }] });
      assert.equal(rule?.text, `chain post: snat ${text}`);
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
