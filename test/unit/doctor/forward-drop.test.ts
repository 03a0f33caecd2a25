import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Family } from '../../../lib/cidr/address.ts';
import { forwardFindings } from '../../../lib/doctor/rule-findings.ts';
import type { KnownExpression } from '../../../lib/netlink/expressions.ts';
import type { RuleReply } from '../../../lib/netlink/replies.ts';
import { fakeHost, jump, reply } from '../foreign/support.ts';

const verdict = (code: number): KnownExpression => ({ name: 'immediate', to: 0, verdict: { code } });
const [DROP, ACCEPT, RETURN] = [0, 1, -5].map((code) => reply(verdict(code)));
const QUEUE: KnownExpression = {
  name: 'target',
  extension: 'NFQUEUE',
  revision: 3,
  info: '0000000000000000',
};
/** As the kernel sends what Docker makes of FORWARD, which drops the rest. */
const DOCKER = {
  FORWARD: [reply(jump('DOCKER-USER')), reply(jump('DOCKER-FORWARD'))],
  'DOCKER-USER': [RETURN],
};
const ESTABLISHED = { name: 'match', extension: 'conntrack', revision: 3, info: '00' } as const;

async function found(
  policy: number,
  rules: Readonly<Record<string, readonly (RuleReply | undefined)[]>>,
  family: Family = 'IPv4',
) {
  const chain = async () => ({
    protocol: 2,
    table: 'filter',
    name: 'FORWARD',
    use: 1,
    hook: { type: 'filter', number: 2, priority: 0, policy },
  });
  const listed = Object.entries(rules).map(([name, all]) => [name, all.filter((one) => one !== undefined)]);
  const host = fakeHost({}, [], {}, [], Object.fromEntries(listed), { chain });
  const findings = await forwardFindings(host, family);
  return findings.map(({ kind, remedy }) => `${kind}: ${remedy}`);
}

describe('that the node forwards nothing', () => {
  for (const [what, rules] of [
    ['an empty chain', {}],
    ['chains that return and drop', { FORWARD: [reply(jump('THEIRS')), DROP], THEIRS: [RETURN, RETURN] }],
  ] as const)
    it(`is a finding, with the command that ends it, if the policy is DROP: ${what}`, async () => {
      const [finding, ...more] = await found(0, rules);
      assert.match(`${finding}`, /^forward-drop: .*: iptables -P FORWARD ACCEPT$/);
      assert.deepEqual(more, []);
      assert.deepEqual(await found(1, rules), []);
    });

  for (const [what, rules] of [
    ['a rule accepts', { FORWARD: [DROP, ACCEPT] }],
    ["Docker's own chain accepts", { ...DOCKER, 'DOCKER-FORWARD': [reply(ESTABLISHED, verdict(1))] }],
    ['a program may accept what is queued', { FORWARD: [reply(QUEUE)] }],
    ['a target is not known', { FORWARD: [reply({ ...QUEUE, extension: 'ACCEPTALL' })] }],
  ] as const)
    it(`is not said if ${what}`, async () => {
      assert.deepEqual(await found(0, rules), []);
    });

  it('names ip6tables for IPv6', async () => {
    assert.match(`${await found(0, {}, 'IPv6')}`, /: ip6tables -P FORWARD ACCEPT$/);
  });

  it('is not said if netlink is not used', async () => {
    assert.deepEqual(await forwardFindings({}, 'IPv4'), []);
  });
});
