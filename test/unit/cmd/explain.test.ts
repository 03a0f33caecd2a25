import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { explainedText } from '../../../cmd/ip-masq-agent/explain/explain-text.ts';
import { explainedJson } from '../../../cmd/ip-masq-agent/explain-json.ts';
import { FAMILIES } from '../../../lib/cidr/address.ts';
import { KEYS } from '../../../lib/config/keys.ts';
import { explained } from '../../../lib/explain/explain.ts';
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

const OWN = ['198.51.100.17', '2001:db8::2', '198.51.100.7', '192.0.2.1', '2001:db8::10'];

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
  for (const [name, own, address, ...lines] of [
    [
      'says the lowest of several, and that it is one',
      OWN,
      '9.9.9.9',
      '9.9.9.9 is masqueraded as 198.51.100.7: 0.0.0.0/0 of ip-masq-operator:2:3 decides',
      "  198.51.100.7 is the lowest of the node's 2 best addresses in 198.51.100.0/24 of ip-masq-operator:2:3",
      '  0.0.0.0/0 is 0.0.0.0 to 255.255.255.255, 4,294,967,296 addresses',
    ],
    [
      'compares numbers, not texts',
      OWN,
      '2001:db8:8::8',
      '2001:db8:8::8 is masqueraded as 2001:db8::2: ::/0 of ip-masq-operator:5:3 decides',
      "  2001:db8::2 is the lowest of the node's 2 best addresses in 2001:db8::/32 of ip-masq-operator:5:3",
      '  ::/0 is :: to ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff, 2^128 addresses',
    ],
    [
      'says that the kernel chooses if the node has none, whatever a wider destination has',
      OWN,
      '8.8.8.8',
      '8.8.8.8 is masqueraded: 8.8.0.0/16 of ip-masq-operator:3:3 decides',
      '  the kernel chooses the address, because the node has none in 203.0.113.0/24 of ip-masq-operator:3:3',
      '  8.8.0.0/16 is 8.8.0.0 to 8.8.255.255, 65,536 addresses',
      '  overrides 0.0.0.0/0 of ip-masq-operator:2:3, masqueraded as 198.51.100.7',
    ],
    [
      'says where an exception is from, and where its address',
      ['198.51.100.7'],
      '10.2.3.4',
      '10.2.3.4 is masqueraded as 198.51.100.7: 10.2.0.0/16 of ip-masq-cloud:2:32 decides',
      "  198.51.100.7 is the node's only address in 198.51.100.0/24 of ip-masq-operator:2:3",
      '  10.2.0.0/16 is 10.2.0.0 to 10.2.255.255, 65,536 addresses',
      '  overrides 10.0.0.0/8 of ip-masq-cloud:1:22, not masqueraded',
      '  overrides 0.0.0.0/0 of ip-masq-operator:2:3, masqueraded as 198.51.100.7',
    ],
    [
      'says nothing if the packets are not masqueraded',
      OWN,
      '10.3.4.5',
      '10.3.4.5 is not masqueraded: 10.0.0.0/8 of ip-masq-cloud:1:22 decides',
      '  10.0.0.0/8 is 10.0.0.0 to 10.255.255.255, 16,777,216 addresses',
      '  overrides 0.0.0.0/0 of ip-masq-operator:2:3, masqueraded as 198.51.100.7',
    ],
  ] as const) {
    it(name, () => {
      const answer = explainOf(TEXTS, address, own);
      assert.deepEqual(explainedText(answer, painter(false)).split('\n'), [...lines, '']);
    });
  }

  it('says the best of several, and that it is one', () => {
    const own = [
      { ...addressFrom('198.51.100.7'), rank: 1 },
      { ...addressFrom('198.51.100.17'), rank: 0 },
    ];
    const answer = explained(
      { config: mergedOf(TEXTS), from: undefined, families: FAMILIES },
      addressFrom('9.9.9.9'),
      own,
    );
    const text = explainedText(answer, painter(false));
    assert.match(text, /198\.51\.100\.17 is the best of the node's 2 addresses in /);
  });

  it('says nothing of packets from elsewhere', () => {
    const texts = { ...TEXTS, 'ip-masq-pods': 'masqueradeFromCIDRs: [10.244.0.0/16]' };
    const text = explainedText(explainOf(texts, '9.9.9.9', OWN, '192.0.2.9'), painter(false));
    assert.match(text, /^9\.9\.9\.9 from 192\.0\.2\.9 is not masqueraded: .*\n {2}only for packets from /);
  });

  it('says whose packets are never masqueraded', () => {
    const texts = { 'ip-masq-pods': 'nonMasqueradeFromCIDRs: [10.244.0.0/16, 10.244.1.0/24]' };
    const said = (from?: string, more = {}) =>
      explainedText(explainOf({ ...texts, ...more }, '9.9.9.9', OWN, from), painter(false)).split('\n');
    const range = '10.244.0.0/16 of ip-masq-pods:1:26';
    assert.deepEqual(said('10.244.1.2'), [
      '9.9.9.9 from 10.244.1.2 is not masqueraded: packets from there are not masqueraded, whatever their destination',
      `  nonMasqueradeFromCIDRs lists ${range}`,
      '',
    ]);
    assert.deepEqual(said('10.245.1.2').length, 2);
    assert.equal(said()[1], `  packets from ${range} are not masqueraded`);
    const other = { 'ip-masq-x': 'masqueradeFromCIDRs: [10.0.0.0/8]' };
    assert.equal(
      said(undefined, other)[1],
      `  only for packets from 10.0.0.0/8 of ip-masq-x:1:23; packets from elsewhere are not masqueraded, nor are those from ${range}`,
    );
    assert.match(
      said(undefined, { 'ip-masq-x': 'nonMasqueradeFromCIDRs: [0.0.0.0/0]' })[0] ?? '',
      /is not masqueraded: packets from anywhere are not masqueraded/,
    );
    const { from } = explainedJson(explainOf({ ...texts, ...other }, '9.9.9.9')) as { readonly from: object };
    assert.deepEqual(from, {
      address: null,
      isElsewhere: false,
      listed: [{ cidr: '10.0.0.0/8', origin: origin('ip-masq-x', 23) }],
      exceptions: [{ cidr: '10.244.0.0/16', origin: origin('ip-masq-pods', 26) }],
    });
  });

  it('gives programs the address, what it was chosen from, and its origin', () => {
    const as = (address: string, own?: readonly string[]) =>
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

function origin(file: string, column: number) {
  return { configFile: file, file, line: 1, column };
}

function explainOf(
  texts: Readonly<Record<string, string>>,
  address: string,
  own?: readonly string[],
  from?: string,
) {
  const source = from === undefined ? undefined : addressFrom(from);
  return explained(
    { config: mergedOf(texts), from: source, families: FAMILIES },
    addressFrom(address),
    own?.map(addressFrom),
  );
}
