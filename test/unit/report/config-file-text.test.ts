import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { FAMILIES } from '../../../lib/cidr/address.ts';
import { KEYS } from '../../../lib/config/keys.ts';
import { mergeConfigFiles } from '../../../lib/config/load.ts';
import { configFileText } from '../../../lib/report/config-file-text.ts';
import { anyConfigFiles, assertDecideAlike } from '../config/any-config-files.ts';
import { merge, OPTIONS } from '../config/support.ts';

describe('all config files as one', () => {
  for (const [count, limit] of [
    [64, ''],
    [65, '\ncidrLimit: 65\n'],
  ] as const) {
    it(`${limit === '' ? 'need no limit for' : 'raise the limit for'} ${count} entries of all lists together`, () => {
      const list = Array.from({ length: count - 2 }, (_, index) => `10.${index}.0.0/16`);
      const text = single({
        'ip-masq-a': `nonMasqueradeCIDRs: [${list}]`,
        'ip-masq-b': 'masqueradeCIDRs: [10.0.1.0/24]',
        'ip-masq-c': 'masqueradeAddresses: [{destination: 0.0.0.0/0, address: 198.51.100.0/24}]',
      });
      assert.equal(/\ncidrLimit.*\n/.exec(text)?.[0] ?? '', limit);
      assert.ok(merge({ 'ip-masq-agent': text }).config);
    });
  }

  for (const [interval, expected] of [
    ['60s', '60s'],
    ['1500ms', '1500ms'],
    ['100.5ms', '100.5ms'],
    ['575h59m59.999999999s', '2073599999.999999ms'],
  ]) {
    it(`write a resyncInterval of ${interval} as ${expected}`, () => {
      const text = single({ 'ip-masq-x': `resyncInterval: ${interval}` });
      assert.ok(text.includes(`\nresyncInterval: ${expected} # ip-masq-x:1:17\n`), text);
    });
  }
});

describe('the text of a single config file', () => {
  it('read by the agent as the only config file decides as all config files do, without a new problem', () => {
    fc.assert(
      fc.property(anyConfigFiles(), ({ texts, families }) => {
        const { config, problems } = merge(texts, { families });
        assert.ok(config);
        const text = configFileText(config, families);
        const back = merge({ 'ip-masq-agent': text }, { families });
        assert.ok(back.config, back.lines.join('\n'));
        assertDecideAlike(config, back.config, families);
        for (const { name, family, plainValue: plain } of KEYS)
          if (family === undefined || families.includes(family))
            assert.deepEqual(plain(back.config), plain(config), name);
        const known = problems.map(({ kind }) => kind);
        for (const { kind, severity } of back.problems)
          assert.ok(severity === 'info' || (kind === 'link-local-entry' && known.includes(kind)), kind);
      }),
    );
  });

  it('keeps the names of config files in its comments, whatever they are', () => {
    const hostile = fc.constantFrom(
      ...'\n\r\t\u0085\u2028\u2029\u0000\u007f\ufeff\ufffe\uffff\ud800\u202e#"\':-',
    );
    const names = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.string({ unit: fc.oneof(hostile, fc.constantFrom(...'\nmasqLinkLocal: true')) }),
    );
    fc.assert(
      fc.property(names, (suffix) => {
        const name = `ip-masq-${suffix}`;
        const configFile = { name, text: 'nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqLinkLocal: false' };
        const { config } = mergeConfigFiles([configFile], OPTIONS);
        assert.ok(config);
        const text = configFileText(config, ['IPv4']);
        const lines = text.split('\n').map((line) => line.replace(/ ?#.*/, ''));
        assert.deepEqual(lines, ['', 'nonMasqueradeCIDRs:', '  - 10.0.0.0/8', 'masqLinkLocal: false', '']);
        // YAML 1.1, 5.1: go-yaml refuses a file with any other character, in a comment too.
        assert.match(
          text,
          /^[\n\x20-\x7e\u{a0}-\u{d7ff}\u{e000}-\u{fefe}\u{ff00}-\u{fffd}\u{10000}-\u{10ffff}]*$/u,
        );
      }),
    );
  });
});

function single(texts: Readonly<Record<string, string>>, families = FAMILIES): string {
  const { config, lines } = merge(texts, { families });
  assert.ok(config, lines.join('\n'));
  return configFileText(config, families);
}
