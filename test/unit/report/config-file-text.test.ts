import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { KEYS } from '../../../lib/config/keys.ts';
import { configFileText } from '../../../lib/report/config-file-text.ts';
import { anyConfigFiles, assertDecideAlike } from '../config/any-config-files.ts';
import { merge } from '../config/support.ts';

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
});
