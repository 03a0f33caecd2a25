import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseNftRule } from '../../../lib/foreign/nft-rule.ts';
import { contextOf } from './support.ts';

const daddr = { payload: { protocol: 'ip', field: 'daddr' } };
const saddr = { payload: { protocol: 'ip', field: 'saddr' } };
const prefix = (addr: string, len: number) => ({ prefix: { addr, len } });
const match = (left: unknown, op: string, right: unknown) => ({ match: { op, left, right } });
const ten = prefix('10.0.0.0', 8);

describe('a rule of nft -j', () => {
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
