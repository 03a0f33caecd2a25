import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type ClusterResult, withRun } from '../cluster/results.ts';

const RESULT: ClusterResult = {
  proxyMode: 'iptables',
  families: 'ipv4',
  kubernetes: 'v1.34.4',
  kernel: '6.18.0',
  runtime: 'containerd 1.6.20',
  scenarios: { '01-base': { a: 'passed' }, '02-swap': { b: 'passed' } },
};
const EXISTING = ['01-base', '02-swap'];

describe('the results of the scenarios', () => {
  it('keep those of other modes, and of other scenarios', () => {
    const dual: ClusterResult = { ...RESULT, families: 'dual' };
    const run: ClusterResult = { ...RESULT, scenarios: { '02-swap': { b: 'failed' } } };
    assert.deepEqual(withRun([RESULT, dual], run, EXISTING), [
      { ...RESULT, scenarios: { '01-base': { a: 'passed' }, '02-swap': { b: 'failed' } } },
      dual,
    ]);
  });

  it('lose tests that a scenario no longer has', () => {
    const run: ClusterResult = { ...RESULT, scenarios: { '02-swap': { c: 'passed' } } };
    const [result] = withRun([RESULT], run, EXISTING);
    assert.deepEqual(result?.scenarios['02-swap'], { c: 'passed' });
  });

  it('lose scenarios that are no more', () => {
    const [result] = withRun([RESULT], { ...RESULT, scenarios: {} }, ['01-base']);
    assert.deepEqual(Object.keys(result?.scenarios ?? {}), ['01-base']);
  });

  it('begin anew for a cluster if a version differs', () => {
    const run: ClusterResult = {
      ...RESULT,
      kubernetes: 'v1.34.5',
      scenarios: { '02-swap': { b: 'passed' } },
    };
    assert.deepEqual(withRun([RESULT], run, EXISTING), [run]);
  });

  it('keep those of another minor version, the newest first', () => {
    const [older, newest] = ['v1.9.9', 'v1.35.0'].map((kubernetes) => ({ ...RESULT, kubernetes }));
    assert.ok(older !== undefined && newest !== undefined);
    assert.deepEqual(withRun([RESULT, older], newest, EXISTING), [newest, RESULT, older]);
  });

  it('have the modes in one order', () => {
    const modes = [
      { proxyMode: 'nftables', families: 'dual' },
      { proxyMode: 'iptables', families: 'ipv6' },
      { proxyMode: 'iptables', families: 'dual' },
      { proxyMode: 'iptables', families: 'ipv4' },
    ] as const;
    const all = modes.reduce<readonly ClusterResult[]>(
      (results, mode) => withRun(results, { ...RESULT, ...mode }, EXISTING),
      [],
    );
    const order = all.map(({ proxyMode, families }) => ({ proxyMode, families }));
    assert.deepEqual(order, modes.toReversed());
  });
});
