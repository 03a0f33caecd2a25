import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseAddress } from '../../../lib/cidr/address.ts';
import { isIn, parseRange } from '../../../lib/cidr/ranges.ts';
import { type FlowRules, keptVerdict, StaleFlows } from '../../../lib/flows/stale.ts';
import type { Flow } from '../../../lib/netlink/conntrack.ts';
import { compilePolicy, flowVerdict } from '../../../lib/policy/policy.ts';
import { mergedOf } from '../config/support.ts';
import { flowOf } from './support.ts';

const POD = '10.244.1.2:4000';
const NODE = '192.0.2.1:40000';
const OUT = '203.0.113.9:53';
const IN = '10.1.1.1:53';
const SERVICE = '10.96.0.1:53';

const inside = parseRange('10.0.0.0/8');
const own = ['192.0.2.1', '10.244.1.1'].map((text) => parseAddress(text)?.value);

/** 10.0.0.0/8 is left alone, and all of IPv6. */
const RULES: FlowRules = {
  verdict: (_, { family, value }) =>
    family === 'IPv6' || (inside && isIn(value, inside)) ? 'not_masqueraded' : 'masqueraded',
  isOwn: ({ value }) => own.includes(value),
};

const TCP = (tcpState: number): Partial<Flow> => ({ protocol: 6, tcpState });

const CASES: readonly (readonly [what: string, flow: Flow, kept: ReturnType<typeof keptVerdict>])[] = [
  ['one to outside that is not masqueraded', flowOf({ from: POD, to: OUT }), 'not_masqueraded'],
  ['one to outside that is', flowOf({ from: POD, to: OUT, as: NODE }), undefined],
  ['one to inside that is not masqueraded', flowOf({ from: POD, to: IN }), undefined],
  ['one to inside that is', flowOf({ from: POD, to: IN, as: NODE }), 'masqueraded'],
  [
    'one of IPv6',
    flowOf({ from: '[fd00::1]:1', to: '[2001:db8::9]:2', as: '[2001:db8::1]:3' }),
    'masqueraded',
  ],
  [
    'one whose source port alone is another',
    flowOf({ from: POD, to: OUT, as: '10.244.1.2:9' }),
    'not_masqueraded',
  ],
  ['one through a Service', flowOf({ from: POD, to: SERVICE, via: OUT }), undefined],
  ['one through a Service, masqueraded', flowOf({ from: POD, to: SERVICE, via: IN, as: NODE }), undefined],
  ['one of the node itself', flowOf({ from: NODE, to: OUT }), undefined],
  ['one to the node itself', flowOf({ from: '203.0.113.9:53', to: NODE }), undefined],
  ['one to multicast', flowOf({ from: POD, to: '224.0.0.251:5353' }), undefined],
  ['one to broadcast', flowOf({ from: POD, to: '255.255.255.255:67' }), undefined],
  ['one that a helper expected', flowOf({ from: POD, to: OUT }, { isExpected: true }), undefined],
  ['one in a zone', flowOf({ from: POD, to: OUT }, { zone: 7 }), undefined],
  ['an established connection', flowOf({ from: POD, to: OUT }, TCP(3)), 'not_masqueraded'],
  ['a connection in TIME_WAIT', flowOf({ from: POD, to: OUT }, TCP(7)), undefined],
];

describe('a flow', () => {
  for (const [what, flow, kept] of CASES)
    it(`${kept === undefined ? 'keeps no old verdict' : `keeps the verdict ${kept}`}: ${what}`, () =>
      assert.equal(keptVerdict(flow, RULES), kept));
});

it('a flow from where packets are never masqueraded keeps an old verdict; one from where nothing is listed does not', () => {
  const text =
    'masqueradeFromCIDRs: [10.244.0.0/16]\nnonMasqueradeFromCIDRs: [10.244.1.0/24, 172.16.0.0/12]\n';
  const policy = compilePolicy(mergedOf({ 'ip-masq-a': text }), 'IPv4');
  const rules = { ...RULES, verdict: flowVerdict([policy]) };
  for (const [from, kept] of [
    [POD, 'masqueraded'],
    ['172.17.0.2:4000', 'masqueraded'],
    ['10.244.2.1:4000', undefined],
    ['10.1.0.1:4000', undefined],
  ] as const)
    assert.equal(keptVerdict(flowOf({ from, to: OUT, as: NODE }), rules), kept, from);
  assert.equal(keptVerdict(flowOf({ from: '10.244.2.1:4000', to: OUT }), rules), 'not_masqueraded');
});

describe('stale flows', () => {
  it('are counted by family, protocol and verdict, with a few examples of each', () => {
    const stale = new StaleFlows();
    for (let port = 1; port <= 5; port += 1)
      stale.add(flowOf({ from: `10.244.1.2:${port}`, to: OUT }), 'not_masqueraded');
    stale.add(flowOf({ from: POD, to: OUT }, TCP(3)), 'not_masqueraded');
    stale.add(flowOf({ from: '[fd00::1]:1', to: '[2001:db8::9]:2' }, { protocol: 47 }), 'masqueraded');
    assert.deepEqual(stale.counts, [
      { family: 'IPv4', protocol: 'udp', kept: 'not_masqueraded', flows: 5 },
      { family: 'IPv4', protocol: 'tcp', kept: 'not_masqueraded', flows: 1 },
      { family: 'IPv6', protocol: 'other', kept: 'masqueraded', flows: 1 },
    ]);
    assert.deepEqual(stale.examples, [
      'udp 10.244.1.2:1 to 203.0.113.9:53: still not masqueraded',
      'udp 10.244.1.2:2 to 203.0.113.9:53: still not masqueraded',
      'udp 10.244.1.2:3 to 203.0.113.9:53: still not masqueraded',
      'tcp 10.244.1.2:4000 to 203.0.113.9:53: still not masqueraded',
      'protocol 47 [fd00::1]:1 to [2001:db8::9]:2: still masqueraded',
    ]);
  });
});
