import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseNftRule } from '../../../lib/foreign/nft-rule.ts';
import { contextOf } from './support.ts';

const saddr = { payload: { protocol: 'ip', field: 'saddr' } };
const mark = { meta: { key: 'mark' } };
const oifname = { meta: { key: 'oifname' } };
const prefix = (addr: string, len: number) => ({ prefix: { addr, len } });
const match = (left: unknown, op: string, right: unknown) => ({ match: { op, left, right } });
const ten = prefix('10.0.0.0', 8);

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
      assert.deepEqual(
        rule?.conditions.map((condition) => condition.isSteady),
        [isSteady],
      );
    });
  }
});
