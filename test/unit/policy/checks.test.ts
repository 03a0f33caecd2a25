import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FAMILIES } from '../../../lib/cidr/address.ts';
import type { ConfigOptions } from '../../../lib/config/config.ts';
import { checksOf } from '../../../lib/policy/checks.ts';
import { gravityOf, merge } from '../config/support.ts';

const IPV4 = { families: ['IPv4'] as const, checkVerdicts: checksOf(['IPv4'], []) };
const BOTH = { families: FAMILIES, checkVerdicts: checksOf(FAMILIES, []) };

describe('a config without an error', () => {
  const EVERYTHING = { IPv4: '\\[0\\.0\\.0\\.0/0\\]', IPv6: '\\["::/0"\\]' };
  const nothing = (at: string, family: keyof typeof EVERYTHING, cause = 'range but link-local is inside') =>
    new RegExp(`^${at}warning: no .*${family} ${cause}: all other ${family} .*${EVERYTHING[family]}`);
  const everything = (at: string, family: string) => new RegExp(`^${at}: info: all ${family} addresses`);

  const NO_IPV6_DEFAULT = nothing('', 'IPv6', 'default but link-local');
  for (const [what, texts, options, ...expected] of [
    ['the defaults', {}, IPV4],
    ['the defaults with IPv6', {}, BOTH, NO_IPV6_DEFAULT],
    ['all reserved ranges with IPv6', {}, { ...BOTH, noMasqAllReservedRanges: true }, NO_IPV6_DEFAULT],
    ['one address inside', { a: 'nonMasqueradeCIDRs: [10.0.0.1/32]' }, IPV4],
    ['one of IPv4, with IPv6', { a: 'nonMasqueradeCIDRs: [10.0.0.1/32]' }, BOTH, nothing('a:1:21: ', 'IPv6')],
    ['one of each', { a: 'nonMasqueradeCIDRs: [10.0.0.1/32, "fd00::/8"]' }, BOTH],
    ['a config file without the list', { a: '\nmasqLinkLocal: true' }, IPV4, nothing('a:2:1: ', 'IPv4')],
    [
      'empty lists in two config files',
      { a: 'nonMasqueradeCIDRs: []', b: 'nonMasqueradeCIDRs: []' },
      IPV4,
      /other: b:1:21/,
    ],
    [
      'link-local alone',
      { a: 'nonMasqueradeCIDRs: [169.254.0.0/17]\nmasqLinkLocal: true' },
      IPV4,
      nothing('a:1:21: ', 'IPv4'),
    ],
    ['more than link-local', { a: 'nonMasqueradeCIDRs: [169.254.0.0/15]' }, IPV4],
    [
      'exceptions that add up to all that is inside',
      { a: 'nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqueradeCIDRs: [10.0.0.0/9, 10.128.0.0/9]' },
      IPV4,
      nothing('a:1:21: ', 'IPv4'),
    ],
    ['an exception that says that it is meant', { a: 'masqueradeCIDRs: [0.0.0.0/0]' }, IPV4],
    ['two that add up to it', { a: 'masqueradeCIDRs: [0.0.0.0/1, 128.0.0.0/1]' }, IPV4],
    ['one for the other family', { a: 'masqueradeCIDRs: [0.0.0.0/0]' }, BOTH, nothing('a:1:1: ', 'IPv6')],
    ['such an exception for both', { a: 'masqueradeCIDRs: [0.0.0.0/0, "::/0"]' }, BOTH],
    [
      'parts that add up to everything, around link-local',
      { a: 'nonMasqueradeCIDRs: [128.0.0.0/2, 0.0.0.0/1, 192.0.0.0/2]' },
      IPV4,
      everything('a:1:35', 'IPv4'),
    ],
    [
      'parts that add up to everything, inside an exception',
      { a: 'masqueradeCIDRs: [0.0.0.0/0]\nnonMasqueradeCIDRs: [0.0.0.0/1, 128.0.0.0/1]' },
      IPV4,
      everything('a:2:22', 'IPv4'),
    ],
    ['all but one address', { a: 'nonMasqueradeCIDRs: [0.0.0.0/0]\nmasqueradeCIDRs: [8.8.8.8/32]' }, IPV4],
    [
      'everything of IPv6',
      { a: 'nonMasqueradeCIDRs: [10.0.0.0/8, "::/0"]' },
      BOTH,
      everything('a:1:34', 'IPv6'),
    ],
    [
      'an error, without which it may be another config',
      { a: 'nonMasqueradeCIDRs: [10.0.0.1/8]' },
      IPV4,
      /^a:1:22: error: "10\.0\.0\.1\/8"/,
    ],
  ] satisfies readonly (readonly [string, Record<string, string>, Partial<ConfigOptions>, ...RegExp[]])[])
    it(`is judged: ${what}`, () => {
      const { lines, config } = merge(texts, options);
      assert.equal(lines.length, expected.length, lines.join('\n'));
      for (const [index, pattern] of expected.entries()) assert.match(lines[index] ?? '', pattern);
      if (config !== undefined) assert.equal(config.problems.length, expected.length);
    });

  for (const [text, ...expected] of [
    ['masqueradeFromCIDRs: [10.244.0.0/16, "fd00:244::/48"]'],
    [
      'nonMasqueradeFromCIDRs: [10.244.0.0/16, "fd00:244::/48"]',
      /^a:1:21: error: .* no IPv4 range/,
      /^a:1:21: error: .* no IPv6 range/,
    ],
    [
      'masqueradeFromCIDRs: [10.244.0.0/16]',
      /^a:2:23: error: .* no IPv6 range, .* \["fd00:10:244::\/56"\], or use/,
    ],
    [
      '',
      /^a:1:21: error: masqueradeFromCIDRs lists no IPv4 range, so --invalid-packets=drop would .* \[10\.244\.0\.0\/16\], or use/,
      /^a:1:21: error: .* no IPv6 range/,
    ],
  ] as const)
    it(`is refused if packets are to be dropped wherever they come from: ${text || 'no ranges'}`, () => {
      const texts = { a: `nonMasqueradeCIDRs: [10.0.0.0/8, "fd00::/8"]\n${text}\n` };
      const { lines, config } = merge(texts, { ...BOTH, checkVerdicts: checksOf(FAMILIES, [], true) });
      assert.equal(lines.length, expected.length, lines.join('\n'));
      for (const [index, pattern] of expected.entries()) assert.match(lines[index] ?? '', pattern);
      assert.equal(config === undefined, expected.length > 0);
      assert.deepEqual(merge(texts, BOTH).lines, []);
    });

  it('is refused with --strict if nothing is inside, beside other warnings', () => {
    const texts = { a: 'masqLinkLocal: true\nnonMasqueradeCIDRs: []', b: 'masqLinkLocal: false' };
    const { config, problems } = merge(texts, { ...IPV4, strict: true });
    assert.equal(config, undefined);
    assert.deepEqual(gravityOf(problems), ['error link-local-flag', 'error nothing-inside']);
  });
});
