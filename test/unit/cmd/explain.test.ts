import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { explainedText } from '../../../cmd/ip-masq-agent/explain/explain-text.ts';
import { explainedJson } from '../../../cmd/ip-masq-agent/explain-json.ts';
import { FAMILIES } from '../../../lib/cidr/address.ts';
import { KEYS } from '../../../lib/config/keys.ts';
import { explained } from '../../../lib/explain/explain.ts';
import type { OwnAddress } from '../../../lib/policy/policy.ts';
import { painter } from '../../../lib/text/colour.ts';
import { addressFrom } from '../cidr/support.ts';
import { mergedOf } from '../config/support.ts';

const TEXTS = {
  'ip-masq-cloud': 'nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqueradeCIDRs: [10.1.0.0/16, 10.2.0.0/16]\n',
  'ip-masq-operator': [
    'masqueradeAddresses:',
    '- {destination: 0.0.0.0/0, address: 198.51.100.0/24}',
    '- {destination: 8.8.0.0/16, address: 203.0.113.0/24}',
    '- {destination: 10.1.2.0/24, address: 203.0.113.0/24}',
    '- {destination: "::/0", address: "2001:db8::/32"}',
  ].join('\n'),
};

const OWN = ['198.51.100.17', '2001:db8::2', '198.51.100.7', '192.0.2.1', '2001:db8::10'].map(addressFrom);

/** One of each kind of range for which a key may say something else. */
const KINDS = '8.8.8.8 10.0.0.1 169.254.1.1 224.0.0.1 2001:db8::1 fd00::1 fe80::1 ff02::1'.split(' ');

for (const { name } of KEYS.filter(({ kind }) => kind === 'flag'))
  it(`explain names ${name} where it changes a verdict`, () => {
    const answersIf = (value: boolean) =>
      KINDS.map((address) => explainOf({ 'ip-masq-a': `${name}: ${value}` }, address));
    const before = answersIf(false).map(({ decision }) => decision?.verdict);
    const changed = answersIf(true).filter(({ decision }, index) => decision?.verdict !== before[index]);
    assert.ok(changed.length > 0);
    for (const one of changed)
      assert.match(explainedText(one, painter(false)), new RegExp(`${name} of ip-masq-a:1:\\d+ is true`));
  });

describe('explain, of an address of the node that packets leave with,', () => {
  const ranked = OWN.map((address, rank) => ({ ...address, rank }));
  for (const [what, own, address, first, second] of [
    [
      'says the lowest of several, and that it is one',
      OWN,
      '9.9.9.9',
      'is masqueraded as 198.51.100.7: 0.0.0.0/0 of ip-masq-operator:2:3 decides',
      "198.51.100.7 is the lowest of the node's 2 best addresses in 198.51.100.0/24 of ip-masq-operator:2:3",
    ],
    [
      'compares numbers, not texts',
      OWN,
      '2001:db8:8::8',
      'is masqueraded as 2001:db8::2: ::/0 of ip-masq-operator:5:3 decides',
      "2001:db8::2 is the lowest of the node's 2 best addresses in 2001:db8::/32 of ip-masq-operator:5:3",
    ],
    [
      'says the best of several, and that it is one',
      ranked,
      '9.9.9.9',
      'is masqueraded as 198.51.100.17: 0.0.0.0/0 of ip-masq-operator:2:3 decides',
      "198.51.100.17 is the best of the node's 2 addresses in 198.51.100.0/24 of ip-masq-operator:2:3",
    ],
    [
      'says that the kernel chooses if the node has none, whatever a wider destination has',
      OWN,
      '8.8.8.8',
      'is masqueraded: 8.8.0.0/16 of ip-masq-operator:3:3 decides',
      'the kernel chooses the address, because the node has none in 203.0.113.0/24 of ip-masq-operator:3:3',
    ],
    [
      'says where an exception is from, and where its address',
      OWN.slice(0, 1),
      '10.2.3.4',
      'is masqueraded as 198.51.100.17: 10.2.0.0/16 of ip-masq-cloud:2:32 decides',
      "198.51.100.17 is the node's only address in 198.51.100.0/24 of ip-masq-operator:2:3",
    ],
    [
      'says nothing if the packets are not masqueraded',
      OWN,
      '10.3.4.5',
      'is not masqueraded: 10.0.0.0/8 of ip-masq-cloud:1:22 decides',
      '10.0.0.0/8 is 10.0.0.0 to 10.255.255.255, 16,777,216 addresses',
    ],
  ] as const)
    it(what, () => {
      const text = explainedText(explainOf(TEXTS, address, own), painter(false));
      assert.deepEqual(text.split('\n').slice(0, 2), [`${address} ${first}`, `  ${second}`]);
    });

  it('gives programs the address, what it was chosen from, and its origin', () => {
    const as = (address: string, own?: readonly OwnAddress[]) =>
      (explainedJson(explainOf(TEXTS, address, own)) as { readonly as?: object }).as;
    const file = { configFile: 'ip-masq-operator', file: 'ip-masq-operator' };
    const everywhere = { range: '198.51.100.0/24', origin: { ...file, line: 2, column: 3 } };
    assert.deepEqual(as('9.9.9.9', OWN), {
      address: '198.51.100.7',
      found: ['198.51.100.7', '198.51.100.17'],
      ...everywhere,
    });
    assert.deepEqual(as('9.9.9.9'), { address: null, found: null, ...everywhere });
    assert.deepEqual(as('9.9.9.9', []), { address: null, found: [], ...everywhere });
    assert.equal(as('10.3.4.5', OWN), undefined);
  });
});

function explainOf(texts: Readonly<Record<string, string>>, address: string, own?: readonly OwnAddress[]) {
  const request = { config: mergedOf(texts), from: undefined, families: FAMILIES };
  return explained(request, addressFrom(address), own);
}
