import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseNftRule } from '../../../lib/neighbours/nft-rule.ts';

const saddr = { payload: { protocol: 'ip', field: 'saddr' } };
const mark = { meta: { key: 'mark' } };
const oifname = { meta: { key: 'oifname' } };
const prefix = (addr: string, len: number) => ({ prefix: { addr, len } });
const match = (left: unknown, op: string, right: unknown) => ({ match: { op, left, right } });
const ten = prefix('10.0.0.0', 8);

describe('a match of nft -j', () => {
  for (const [left, op, right, kind] of [
    [saddr, '==', ten, 'steady'],
    [saddr, '!=', { range: ['1.2.3.4', '1.2.3.9'] }, 'steady'],
    [oifname, '!=', 'docker0', 'steady'],
    [{ payload: { protocol: 'tcp', field: 'dport' } }, '==', 80, 'steady'],
    [saddr, '==', '@dynamic', 'other'],
    [saddr, '==', { set: [ten] }, 'other'],
    [saddr, '<', '1.2.3.4', 'other'],
    [{ payload: { base: 'nh', offset: 0, len: 8 } }, '==', 1, 'other'],
    [{ ct: { key: 'state' } }, 'in', 'new', 'other'],
    [{ numgen: { mode: 'random', mod: 2, offset: 0 } }, '==', 0, 'other'],
    [mark, '==', 1, 'mark'],
  ] as const) {
    it(`asks for something ${kind}: ${JSON.stringify(left)} ${op} ${JSON.stringify(right)}`, () => {
      const [rule] = parseNftRule('IPv4', { expr: [match(left, op, right)] }, new Map());
      assert.deepEqual(
        rule?.conditions.map((condition) => condition.kind),
        [kind],
      );
    });
  }
});
