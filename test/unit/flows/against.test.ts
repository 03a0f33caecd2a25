import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseAddress } from '../../../lib/cidr/address.ts';
import { isIn } from '../../../lib/cidr/ranges.ts';
import { type FlowEnds, FlowsAgainst, isCounted, treatmentAgainst } from '../../../lib/flows/against.ts';
import type { Flow } from '../../../lib/netlink/conntrack.ts';
import { countsText, type Treatment } from '../../../lib/policy/flow-counts.ts';
import { type FlowPolicy, flowPolicy } from '../../../lib/policy/flow-policy.ts';
import { compilePolicy } from '../../../lib/policy/policy.ts';
import { rangeFrom } from '../cidr/support.ts';
import { mergedOf } from '../config/support.ts';
import { flowOf } from './support.ts';

const POD = '10.244.1.2:4000';
const NODE = '192.0.2.1:40000';
const OUT = '203.0.113.9:53';
const IN = '10.1.1.1:53';
const SERVICE = '10.96.0.1:53';

const inside = rangeFrom('10.0.0.0/8');
const pods = rangeFrom('10.244.1.0/24');
const own = ['192.0.2.1', '10.244.1.1', '2001:db8::1'].map((text) => parseAddress(text)?.value);

/** 10.0.0.0/8 is left alone, and all of IPv6. */
const POLICY: FlowPolicy = (_, { family, value }) => ({
  verdict: family === 'IPv6' || isIn(value, inside) ? 'not_masqueraded' : 'masqueraded',
});
const ENDS: FlowEnds = {
  isOwn: ({ value }) => own.includes(value),
  isPod: ({ family, value }) => family === 'IPv6' || (pods !== undefined && isIn(value, pods)),
};

const TCP = (tcpState: number): Partial<Flow> => ({ protocol: 6, tcpState });

const treatmentOf = (flow: Flow, policy = POLICY): Treatment | undefined => {
  const found = treatmentAgainst(flow, policy, ENDS.isOwn);
  return isCounted(flow, ENDS) ? found : undefined;
};

const CASES: readonly (readonly [what: string, flow: Flow, against: Treatment | undefined])[] = [
  ['one to outside that is not masqueraded', flowOf({ from: POD, to: OUT }), 'not_masqueraded'],
  ['one to outside that is', flowOf({ from: POD, to: OUT, as: NODE }), undefined],
  ['one to outside as a stranger', flowOf({ from: POD, to: OUT, as: '192.0.2.77:1' }), 'other_address'],
  ['one to inside that is not masqueraded', flowOf({ from: POD, to: IN }), undefined],
  ['one to inside that is', flowOf({ from: POD, to: IN, as: NODE }), 'masqueraded'],
  [
    'one of IPv6',
    flowOf({ from: '[fd00::1]:1', to: '[2001:db8::9]:2', as: '[2001:db8::1]:3' }),
    'masqueraded',
  ],
  [
    'one of which only the port is another',
    flowOf({ from: POD, to: OUT, as: '10.244.1.2:9' }),
    'not_masqueraded',
  ],
  ['one through a Service', flowOf({ from: POD, to: SERVICE, via: OUT }), undefined],
  ['one through a Service, masqueraded', flowOf({ from: POD, to: SERVICE, via: IN, as: NODE }), undefined],
  ['one of the node itself', flowOf({ from: NODE, to: OUT }), undefined],
  ["one of the node's own address among pods", flowOf({ from: '10.244.1.1:5', to: OUT }), undefined],
  ['one to the node itself', flowOf({ from: POD, to: NODE }), undefined],
  ['one of Docker', flowOf({ from: '172.17.0.2:4000', to: IN, as: NODE }), undefined],
  ['one to multicast', flowOf({ from: POD, to: '224.0.0.251:5353' }), undefined],
  ['one to broadcast', flowOf({ from: POD, to: '255.255.255.255:67' }), undefined],
  ['one that a helper expected', flowOf({ from: POD, to: OUT }, { isExpected: true }), undefined],
  ['one in a zone', flowOf({ from: POD, to: OUT }, { zone: 7 }), undefined],
  ['an established connection', flowOf({ from: POD, to: OUT }, TCP(3)), 'not_masqueraded'],
  ['a connection in TIME_WAIT', flowOf({ from: POD, to: OUT }, TCP(7)), undefined],
];

describe('a flow', () => {
  for (const [what, flow, against] of CASES)
    it(`${against === undefined ? 'is not against the policy' : `is against the policy, ${against}`}: ${what}`, () =>
      assert.equal(treatmentOf(flow), against));
});

it('a flow from where packets are never masqueraded is judged; one from where nothing is listed is not', () => {
  const text =
    'masqueradeFromCIDRs: [10.244.0.0/16]\nnonMasqueradeFromCIDRs: [10.244.1.0/24, 172.16.0.0/12]\n';
  const policy = flowPolicy([compilePolicy(mergedOf({ 'ip-masq-a': text }), 'IPv4')]);
  for (const [from, against] of [
    [POD, 'masqueraded'],
    ['172.17.0.2:4000', 'masqueraded'],
    ['10.244.2.1:4000', undefined],
    ['10.1.0.1:4000', undefined],
  ] as const)
    assert.equal(treatmentAgainst(flowOf({ from, to: OUT, as: NODE }), policy, ENDS.isOwn), against, from);
  assert.equal(
    treatmentAgainst(flowOf({ from: '10.244.2.1:4000', to: OUT }), policy, ENDS.isOwn),
    'not_masqueraded',
  );
});

it('a flow has the address that masqueradeAddresses asks for, if the node has one', () => {
  const config = mergedOf({
    'ip-masq-a': 'masqueradeAddresses: [{destination: 0.0.0.0/0, address: 198.51.100.0/24}]\n',
  });
  const address = parseAddress('198.51.100.7');
  assert.ok(address);
  const flow = (as: string) => flowOf({ from: POD, to: OUT, as });
  const has = flowPolicy([compilePolicy(config, 'IPv4', [address])]);
  assert.equal(treatmentOf(flow('198.51.100.7:1'), has), undefined);
  assert.equal(treatmentOf(flow(NODE), has), 'other_address');
  const hasNone = flowPolicy([compilePolicy(config, 'IPv4', [])]);
  assert.equal(treatmentOf(flow(NODE), hasNone), undefined);
});

it('flows against the policy are counted by family, verdict and beginning, with a few examples of each', () => {
  const against = new FlowsAgainst();
  for (let port = 1; port <= 5; port += 1)
    against.add(flowOf({ from: `10.244.1.2:${port}`, to: OUT }), 'not_masqueraded', 'before');
  const ipv6 = { from: '[fd00::1]:1', to: '[2001:db8::9]:2', as: '[2001:db8::1]:2' };
  against.add(flowOf(ipv6, { protocol: 47 }), 'masqueraded', 'after');
  assert.deepEqual(against.counts(), [
    { family: 'IPv4', verdict: 'not_masqueraded', since: 'before', flows: 5 },
    { family: 'IPv6', verdict: 'masqueraded', since: 'after', flows: 1 },
  ]);
  assert.equal(countsText(against.counts()), '6 connections: 5 not masqueraded (IPv4), 1 masqueraded (IPv6)');
  assert.deepEqual(against.examples('before'), [
    'udp 10.244.1.2:1 to 203.0.113.9:53: not masqueraded',
    'udp 10.244.1.2:2 to 203.0.113.9:53: not masqueraded',
    'udp 10.244.1.2:3 to 203.0.113.9:53: not masqueraded',
  ]);
  assert.deepEqual(against.examples('after'), [
    'protocol 47 [fd00::1]:1 to [2001:db8::9]:2: masqueraded as 2001:db8::1',
  ]);
});
