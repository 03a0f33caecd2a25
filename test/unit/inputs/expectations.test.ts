import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FAMILIES } from '../../../lib/cidr/address.ts';
import { formatProblem } from '../../../lib/config/problem.ts';
import { readExpectations } from '../../../lib/inputs/expectations.ts';

const OPTIONS = { families: FAMILIES, cidrLimitMax: 5 };

describe('a file of expectations', () => {
  it('maps addresses and CIDRs of both families to verdicts, in YAML or JSON', () => {
    const inYaml =
      '10.0.0.0/8: not masqueraded\n8.8.8.8: masqueraded # why\nFD00::/8: not masqueraded\n::1: "masqueraded"\n';
    const inJson =
      '{"10.0.0.0/8": "not masqueraded",\n"8.8.8.8": "masqueraded",\n"FD00::/8": "not masqueraded",\n"::1": "masqueraded"}';
    for (const text of [inYaml, inJson]) {
      const said = read(text).expectations.map(
        ({ prefix, verdict, origin }) => `${origin.line} ${prefix.text} ${verdict}`,
      );
      assert.deepEqual(said, [
        ...['1 10.0.0.0/8 not_masqueraded', '2 8.8.8.8/32 masqueraded', '3 fd00::/8 not_masqueraded'],
        '4 ::1/128 masqueraded',
      ]);
    }
  });

  it('say where packets come from, if that matters', () => {
    const { expectations } = read(
      '8.8.8.8 from 10.244.0.0/16: masqueraded\n8.8.8.8 from 10.1.2.3: not masqueraded\n8.8.8.8: masqueraded\n',
    );
    const texts = expectations.map(({ prefix, from, verdict }) => `${prefix.text} ${from?.text} ${verdict}`);
    assert.deepEqual(texts, [
      '8.8.8.8/32 10.244.0.0/16 masqueraded',
      '8.8.8.8/32 10.1.2.3/32 not_masqueraded',
      '8.8.8.8/32 undefined masqueraded',
    ]);
  });

  for (const [text, ...expected] of [
    ['8.8.8.8 from fd00::/8: masqueraded', /8\.8\.8\.8\/32 and fd00::\/8 are not of one family/],
    ['8.8.8.8 from: masqueraded', /^e:1:1: error: "8\.8\.8\.8 from" /],
    ['8.8.8.8 from 10.0.0.1/8: masqueraded', /^e:1:1: error: "10\.0\.0\.1\/8" is not a network address/],
    [
      '8.8.8.8 from 10.0.0.0/8: masqueraded\n8.8.8.8/32  from 10.0.0.0/8: masqueraded',
      /^e:2:1: error: 8\.8\.8\.8\/32 from 10\.0\.0\.0\/8 is there twice/,
    ],
    ['', /^e:1:1: error: there is no expectation/],
    ['{}', /there is no expectation/],
    ['- 10.0.0.0/8', /^e:1:1: error: expectations must be a map, but this is a list; write for example/],
    ['[', /^e:1:2: error: is not valid YAML/],
    [
      '10.0.0.0/8: yes',
      /^e:1:13: error: a verdict is "masqueraded" or "not masqueraded", but this is the boolean true/,
    ],
    ['10.0.0.0/8: Masqueraded', /the text "Masqueraded"/],
    ['10.0.0.0/8:', /but this is empty/],
    [
      '10.0.0.1/8: masqueraded',
      /^e:1:1: error: "10\.0\.0\.1\/8" is not a network address: .*write 10\.0\.0\.0\/8/,
    ],
    ['010.0.0.1: masqueraded', /"010\.0\.0\.1" /],
    ['"::ffff:10.0.0.1": masqueraded', /IPv4-mapped/],
    ['12: masqueraded', /a key must be an address or a CIDR, but is the number 12/],
    ['10.0.0.1: masqueraded\n10.0.0.1/32: masqueraded', /^e:2:1: error: .* twice \(the other: e:1:1\)/],
    [
      Array.from({ length: 6 }, (_, index) => `10.0.0.${index}: masqueraded\n`).join(''),
      /^e:6:1: error: 6 expectations, but there may be only 5; /,
    ],
    ['{'.repeat(5000), /too many keys and items/],
    ['fd0: x\n10: masqueraded', /"fd0" is not/, /the text "x"/, /the number 10/],
  ] as const)
    it(`is refused: ${text.slice(0, 40)}`, () => {
      const { expectations, problems } = read(text);
      assert.deepEqual(expectations, []);
      assert.equal(problems.length, expected.length, problems.map(formatProblem).join('\n'));
      for (const [index, one] of problems.entries())
        assert.match(formatProblem(one), expected[index] ?? /^$/);
    });

  for (const [families, text, remedy] of [
    [['IPv4'], 'fd00::1: masqueraded', /^e:1:1: error: .*add --enable-ipv6/],
    [['IPv6'], '10.0.0.1: masqueraded', /^e:1:1: error: 10\.0\.0\.1\/32 is IPv4, .*add --enable-ipv4/],
  ] as const)
    it(`is refused if it names another family than ${families}`, () => {
      const { problems } = read(text, { ...OPTIONS, families });
      assert.match(problems.map(formatProblem).join(), remedy);
    });
});

function read(text: string, options = OPTIONS) {
  return readExpectations({ name: 'e', text }, options);
}
