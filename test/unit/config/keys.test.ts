import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { logConfig } from '../../../lib/agent/log-changes.ts';
import { FAMILIES } from '../../../lib/cidr/address.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import { configHash } from '../../../lib/config/config-hash.ts';
import { KEYS, type KeyKind } from '../../../lib/config/keys.ts';
import { CONFLICT_KINDS } from '../../../lib/config/problem.ts';
import type { Logger } from '../../../lib/log/log.ts';
import { configFileText } from '../../../lib/report/config-file-text.ts';
import { mergedValue } from '../../../lib/report/json.ts';
import { loadedOf, merge, mergedOf, problemLines } from './support.ts';

/** A value of a key, and another one. */
const VALUES: Readonly<Record<KeyKind, readonly [string, string]>> = {
  cidrs: ['[10.20.0.0/16, "fd00::/8"]', '[10.30.0.0/16]'],
  addresses: [
    '[{destination: 192.0.2.0/24, address: 10.20.0.0/16}]',
    '[{destination: 192.0.2.0/24, address: 10.30.0.0/16}]',
  ],
  flag: ['true', 'false'],
  duration: ['90s', '60s'],
};

/** Values of a wrong shape: of a list, of its items too. */
const WRONG: Readonly<Record<KeyKind, readonly string[]>> = {
  cidrs: ['{a: b}', '10.0.0.0/8', '[1]', '[[]]', '[{}]', '[null]', 'null'],
  addresses: ['{a: b}', 'x', '[1]', '[[]]', '[{}]', '[null]', '[{destination: 1, address: 2}]', 'null'],
  flag: ['{a: b}', '[]', '1', '"true"', 'null'],
  duration: ['{a: b}', '[]', '60', 'true', 'null'],
};

/** What ajv says of a schema, which people who write YAML need not know. */
const WORDS_OF_SCHEMAS = /must (?:NOT|have required|be (?:array|object|boolean|integer|number|string)\b)/;

/** The outputs that hold the values of a config. */
const VALUES_IN = {
  'the JSON of check and /configz': (config: MergedConfig) => JSON.stringify(mergedValue(config)),
  'a written config file': (config: MergedConfig) => configFileText(config, FAMILIES).replaceAll(/#.*/g, ''),
  'the hash': configHash,
} as const;

for (const key of KEYS) {
  const { name } = key;
  const [value, other] = VALUES[key.kind];
  const configs = [value, other].map((one) => mergedOf({ 'ip-masq-a': `${name}: ${one}` }));
  const unset = mergedOf({ 'ip-masq-a': '{}' });
  const isFlag = key.kind === 'flag';

  describe(`what a config file says of ${name}`, () => {
    for (const [output, textOf] of Object.entries(VALUES_IN)) {
      it(`is in ${output}`, () => {
        assert.equal(new Set([...configs, unset].map(textOf)).size, isFlag ? 2 : 3);
      });
    }

    // It says nothing of packets.
    if (name !== 'resyncInterval')
      it('is in the log', () => {
        assert.notEqual(configs.map(logOf)[0], logOf(unset));
      });

    it('is the same when it is read back from the config file that is written of it', () => {
      for (const config of configs) {
        const back = mergedOf({ 'ip-masq-b': configFileText(config, FAMILIES) });
        assert.deepEqual(key.plainValue(back), key.plainValue(config));
      }
    });

    it('is refused with the name of the key and a remedy if its shape is wrong', () => {
      for (const wrong of WRONG[key.kind]) {
        const [line = ''] = problemLines(`${name}: ${wrong}`);
        assert.match(
          line,
          new RegExp(`^s:1:\\d+: error: .*\\b${name} (?:must be|must have|has no) .*; (?:write|remove) `),
          wrong,
        );
        assert.doesNotMatch(line, WORDS_OF_SCHEMAS, wrong);
      }
    });

    it('is held against what another config file says of it', () => {
      const kinds = [value, other].flatMap((second) =>
        merge({ a: `${name}: ${value}`, b: `${name}: ${second}` }).problems.map(({ kind }) => kind),
      );
      assert.ok(kinds.some((kind) => kind in CONFLICT_KINDS));
    });

    it('has another hash under this name than under another', () => {
      const others = KEYS.filter((one) => one.name !== name && one.kind === key.kind);
      const hashes = others.map((one) => configHash(mergedOf({ 'ip-masq-a': `${one.name}: ${value}` })));
      assert.ok(configs[0] && !hashes.includes(configHash(configs[0])));
    });
  });
}

function logOf(config: MergedConfig): string {
  const lines: unknown[] = [];
  const log = { info: (...line: unknown[]) => lines.push(line) } as unknown as Logger;
  logConfig(log, loadedOf(config));
  return JSON.stringify(lines);
}
