import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { KEYS } from '../../../lib/config/keys.ts';
import { mergeConfigFiles } from '../../../lib/config/load.ts';
import { configFileText } from '../../../lib/report/config-file-text.ts';
import { anyConfigFiles, assertDecideAlike } from '../config/any-config-files.ts';
import { merge, OPTIONS } from '../config/support.ts';

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
