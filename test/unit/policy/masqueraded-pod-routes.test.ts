import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { masqueradedPodRoutes } from '../../../lib/policy/masqueraded-pod-routes.ts';
import { compilePolicy } from '../../../lib/policy/policy.ts';
import { prefixFrom } from '../cidr/support.ts';
import { mergedOf } from '../config/support.ts';

/** What is found of both families. */
function found(texts: Record<string, string>, routes: readonly string[], accepted: readonly string[] = []) {
  const config = mergedOf(texts);
  const all = routes.map((text) => ({ prefix: prefixFrom(text), text: `${text} dev pods` }));
  return (['IPv4', 'IPv6'] as const).flatMap((family) =>
    masqueradedPodRoutes(
      compilePolicy(config, family),
      all,
      accepted.map(prefixFrom),
      config.configFileNames,
    ),
  );
}

const OPERATOR = (list: string) => ({ 'ip-masq-operator': `nonMasqueradeCIDRs: [${list}]\n` });
const ROUTES = ['10.244.1.0/24', '10.244.2.0/24', '100.64.7.0/24', 'fd00:244:0:1::/64'];
const hosts = (count: number) => Array.from({ length: count }, (_, pod) => `10.244.66.${pod + 1}/32`);

describe('pods that the config masquerades', () => {
  for (const [what, texts, routes, ranges] of [
    ['nothing, if every range is listed', OPERATOR('10.0.0.0/8, 100.64.0.0/10, "fd00::/8"'), ROUTES, []],
    [
      'all of them, if the list is empty',
      OPERATOR(''),
      ROUTES,
      ['10.244.0.0/22: 2', '100.64.7.0/24: 1', 'fd00:244:0:1::/64: 1'],
    ],
    ['a second range', OPERATOR('10.0.0.0/8, "fd00::/8"'), ROUTES, ['100.64.7.0/24: 1']],
    ['IPv6 beside a list of IPv4', OPERATOR('10.0.0.0/8, 100.64.0.0/10'), ROUTES, ['fd00:244:0:1::/64: 1']],
    ['what the defaults do not hold', {}, ROUTES, ['100.64.7.0/24: 1', 'fd00:244:0:1::/64: 1']],
    ['the same range for any number of pods', OPERATOR(''), hosts(1), ['10.244.66.0/24: 1']],
    [
      'the part of a route that is not listed',
      OPERATOR('10.244.0.0/17'),
      ['10.244.0.0/16'],
      ['10.244.128.0/17: 1'],
    ],
  ] as const)
    it(`are ${what}`, () => {
      const seen = found(texts, routes).map(({ range, routes }) => `${range.text}: ${routes}`);
      assert.deepEqual(seen, ranges);
    });

  it('are told with routes, the range, and the ConfigMap to list it in', () => {
    const [one] = found(OPERATOR('192.168.0.0/16'), hosts(5));
    assert.deepEqual(one && { ...one, range: one.range.text }, {
      family: 'IPv4',
      range: '10.244.66.0/24',
      routes: 5,
      message: '5 routes lead to pods in 10.244.66.0/24, which the config masquerades',
      evidence: [
        '10.244.66.1/32 dev pods',
        '10.244.66.2/32 dev pods',
        '10.244.66.3/32 dev pods',
        '… and 2 more',
      ],
      remedy:
        'list 10.244.66.0/24, or the whole range of pods that holds it, in nonMasqueradeCIDRs of the ConfigMap with ip-masq-operator; if this is intended, accept it: --accept-masqueraded=10.244.66.0/24',
    });
    const [other] = found({ 'ip-masq-own': 'nonMasqueradeCIDRs: []\n' }, ['10.244.1.0/24']);
    assert.match(other?.remedy ?? '', /ConfigMap with ip-masq-own;/);
    assert.match(other?.message ?? '', /^1 route leads/);
  });

  it('are told with the entry that asks for it, which must go', () => {
    const texts = {
      'ip-masq-x': 'nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqueradeCIDRs: [10.244.9.0/24, 0.0.0.0/0]\n',
    };
    const [one, ...more] = found(texts, ['10.244.8.0/22']);
    assert.deepEqual(more, []);
    assert.deepEqual(one?.evidence, [
      '10.244.8.0/22 dev pods',
      'masqueraded by 10.244.9.0/24 of ip-masq-x:2:19',
    ]);
    assert.match(
      one.remedy,
      /^list 10\.244\.9\.0\/24,.* in nonMasqueradeCIDRs instead of masqueradeCIDRs of/,
    );
  });

  it('follow masqueradeFromCIDRs, and make masqueradeAddresses give way', () => {
    const texts = {
      'ip-masq-x':
        'masqueradeFromCIDRs: [10.244.0.0/16]\nmasqueradeAddresses: [{destination: 10.244.9.0/24, address: 192.0.2.0/24}]\n',
    };
    const [one] = found(texts, ['10.244.9.0/24']);
    assert.equal(one?.range.text, '10.244.9.0/24');
    assert.deepEqual(one?.evidence, ['10.244.9.0/24 dev pods']);
  });

  it('follow nonMasqueradeFromCIDRs', () => {
    const of = (from: string) => found({ 'ip-masq-x': from }, ['10.244.9.0/24']);
    const [one] = of('nonMasqueradeFromCIDRs: [10.245.0.0/16]');
    assert.equal(one?.range.text, '10.244.9.0/24');
    assert.deepEqual(of('nonMasqueradeFromCIDRs: [0.0.0.0/0]'), []);
  });

  it('are not told if they are accepted, all or in part', () => {
    const ranges = (...accepted: string[]) =>
      found(OPERATOR(''), ROUTES, accepted).map(({ range }) => range.text);
    assert.deepEqual(ranges('10.244.0.0/16', 'fd00::/8'), ['100.64.7.0/24']);
    assert.deepEqual(ranges('10.244.2.0/24', '::/0'), ['10.244.1.0/24', '100.64.7.0/24']);
    assert.deepEqual(ranges('0.0.0.0/0', '::/0'), []);
  });
});
