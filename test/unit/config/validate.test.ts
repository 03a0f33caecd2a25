import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { LINE_BREAK } from '../../../lib/config/config-file.ts';
import { problemFramer } from '../../../lib/config/frame.ts';
import { formatProblem, locationText } from '../../../lib/config/problem.ts';
import { almostConfig } from './arbitrary.ts';
import { gravityOf, kindsOf, UNPRINTABLE, validate } from './support.ts';

describe('an item of masqueradeAddresses', () => {
  for (const [isUsable, ranges] of [
    [false, ['0.0.0.0/8', '0.0.0.0/32', '127.0.0.0/8', '127.1.0.0/16', '169.254.0.0/16', '224.0.0.0/4']],
    [false, ['255.255.255.255/32', '::/128', '::1/128', 'fe80::/10', 'fe80::/64', 'ff00::/8']],
    // Linux lets a node have addresses of 240.0.0.0/4, and clouds give it some.
    [true, ['0.0.0.0/0', '0.0.0.0/7', '126.0.0.0/7', '169.254.0.0/15', '240.0.0.0/4', '::/0', 'fe80::/9']],
  ] as const)
    for (const range of ranges)
      it(`${isUsable ? 'may' : 'must not'} have the range ${range}`, () => {
        const destination = range.includes(':') ? '2000::/3' : '8.0.0.0/8';
        const text = `masqueradeAddresses: [{destination: "${destination}", address: "${range}"}]`;
        const { config, problems } = validate(text, { families: ['IPv4', 'IPv6'] });
        assert.deepEqual(gravityOf(problems), isUsable ? [] : ['error unusable-range']);
        assert.equal(config.masqueradeAddresses.length, isUsable ? 1 : 0);
      });

  const item = '{DESTINATION: "2001:DB8:0::/32", Address: "fd00::/64"}';

  for (const [families, kind, text, ...places] of [
    [['IPv4'], 'ipv6-disabled', item, 's:1:37', 's:1:65'],
    [['IPv6'], 'ipv4-disabled', '{destination: 0.0.0.0/0, address: 10.0.0.0/8}', 's:1:37', 's:1:57'],
  ] as const)
    it(`is an error for each network of another family than ${families}`, () => {
      const { problems } = validate(`masqueradeAddresses: [${text}]`, { families });
      const found = problems.map((one) => `${one.kind} ${one.at && locationText(one.at)}`);
      const expected = places.map((place) => `${kind} ${place}`);
      assert.deepEqual(found, expected);
    });

  it('is two networks in normal form, at the place of the item, also behind an alias', () => {
    const { config, problems } = validate(`masqueradeAddresses: [&a ${item}, *a]`);
    assert.deepEqual(problems, []);
    const items = config.masqueradeAddresses.map(({ value: { destination, range }, origin }) => [
      destination.text,
      range.text,
      locationText(origin),
    ]);
    const one = ['2001:db8::/32', 'fd00::/64', 's:1:26'];
    assert.deepEqual(items, [one, one]);
  });

  it('has its problems told once, even if aliases stand for it', () => {
    const text = 'masqueradeAddresses: [&a {x: 1, destination: 0.0.0.0/0, address: 10.0.0.0/8}, *a, *a]';
    assert.deepEqual(kindsOf(validate(text).problems), ['unknown-key']);
  });
});

describe('any text in a config file of any name', () => {
  const anyName = fc.oneof(fc.constant('ip-masq-a'), fc.string({ unit: 'binary' }));
  const options = { families: ['IPv4'] as const, cidrLimit: 1 };

  it('yields a config and problems that stand in the text and print on one line', () => {
    fc.assert(
      fc.property(anyName, almostConfig(), (name, text) => {
        const configFile = { name, text };
        for (const problem of validate(text, options, name).problems) {
          assert.ok(problem.at?.kind === 'file');
          const line = text.split(LINE_BREAK)[problem.at.line - 1];
          assert.ok(line !== undefined && problem.at.column >= 1 && problem.at.column <= line.length + 1);
          for (const part of [problem.message, problem.remedy, formatProblem(problem)]) {
            assert.doesNotMatch(part, UNPRINTABLE);
          }
          const frame = problemFramer([configFile])(problem).split('\n');
          assert.equal(frame.length, problem.other === undefined ? 3 : 6);
          for (const row of frame) assert.doesNotMatch(row, UNPRINTABLE);
          assert.ok((frame[2]?.length ?? 0) <= (frame[1]?.length ?? 0) + 1, 'the caret is within the width');
        }
      }),
      { numRuns: 1_000 },
    );
  });

  for (const line of ['-\n', '- 10.0.0.1/8\n', '- 0\n', 'foo: 1\n', 'masqLinkLocal: 1\n']) {
    it(`keeps one problem more than is reported of ${JSON.stringify(line)}`, () => {
      const head = line.startsWith('-') ? 'nonMasqueradeCIDRs:\n' : '';
      const { problems } = validate(`${head}${line.repeat(1500)}`, { cidrLimit: 2000, cidrLimitMax: 2000 });
      assert.equal(problems.length, 101);
    });
  }

  it('keeps the first of very many problems from top to bottom, whichever step finds them', () => {
    const { problems } = validate('a: 1\n'.repeat(1500));
    assert.deepEqual(
      problems.map(({ kind, at }) => [kind, at && 'line' in at && at.line]),
      problems.map((_, index) => [index === 0 ? 'unknown-key' : 'duplicate-key', index + 1]),
    );
    assert.equal(problems.length, 101);
  });
});
