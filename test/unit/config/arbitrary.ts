import fc from 'fast-check';
import type { Family } from '../../../lib/cidr/address.ts';
import type { ParsedConfig } from '../../../lib/config/config.ts';
import { KEYS, type KeyKind, type ParsedKeys } from '../../../lib/config/keys.ts';
import type { Located } from '../../../lib/text/origin.ts';
import { BITS, crowdedPrefix, prefixOf } from '../cidr/arbitrary.ts';

const CONFIGS = [
  'nonMasqueradeCIDRs:\n  - 10.0.0.0/8\n  - fd00::/8\nmasqueradeCIDRs: [10.1.0.0/16]\nmasqLinkLocal: no\n',
  '{"nonMasqueradeCIDRs": ["10.0.0.0/8", "172.16.0.0/12"], "resyncInterval": "60s", "cidrLimit": 2}',
  '---\nnonMasqueradeCIDRs: &all\n- "10.0.0.0/8"\nmasqueradeCIDRs: *all\nresyncInterval: 1m30s # often\n...\n',
  'masqueradeAddresses:\n- &d {destination: 0.0.0.0/0, address: 10.0.0.0/8}\n- *d\n- Address: fd00::/8\n  destination: ::/0\n',
  'MasqLinkLocalIPv6: !!bool yes\r\ncidrLimit: 3\r\nnonMasqueradeCIDRs:\r\n-\r\n- |\r\n  10.0.0.0/8\r\n',
];

const PIECES = [
  ...'\n\r\t -?:,[]{}#&*!|>\'"%@`~0aé\0\u0007\u001b\u0085\u00a0\u200b\u2028\ufeff\ufffe',
  ...['\ud800', '😀', '---\n', '...\n', '\n- ', '\n  ', ': ', '&a ', '*a', '!!str ', '<<: ', '__proto__'],
  ...['constructor', 'null', 'yes', '1e400', '10.0.0.1/8'],
];

/** Configs with a few edits, texts of the pieces that YAML consists of, and texts of anything. */
export function almostConfig(): fc.Arbitrary<string> {
  const piece = fc.constantFrom(...PIECES);
  const edit = fc.tuple(fc.nat(200), fc.nat(4), fc.option(piece));
  const edited = fc
    .tuple(fc.constantFrom(...CONFIGS), fc.array(edit, { minLength: 1, maxLength: 4 }))
    .map(([config, edits]) =>
      edits.reduce((text, [at, removed, added]) => {
        const index = at % (text.length + 1);
        return `${text.slice(0, index)}${added ?? ''}${text.slice(index + removed)}`;
      }, config),
    );
  const cut = fc.tuple(fc.constantFrom(...CONFIGS), fc.nat(200)).map(([text, end]) => text.slice(0, end));
  const pieces = fc.array(piece, { maxLength: 30 }).map((all) => all.join(''));
  return fc.oneof(edited, edited, cut, pieces, fc.string({ unit: 'binary' }));
}

const CONFIG_FILE_NAMES = ['a', 'b', 'c', 'd', 'e', 'f'];

/** What one config file may say of a key, by the kind of the key. */
function saidOf(family: Family): Readonly<Record<KeyKind, fc.Arbitrary<unknown>>> {
  return {
    cidrs: fc.array(crowdedPrefix(family), { maxLength: 5 }),
    addresses: fc.array(
      fc.record({
        destination: crowdedPrefix(family),
        range: fc.oneof(
          fc.constantFrom(0n, 1n).map((address) => prefixOf(family, address, BITS[family])),
          crowdedPrefix(family),
        ),
      }),
      { maxLength: 3 },
    ),
    flag: fc.option(fc.boolean(), { nil: undefined }),
    duration: fc.option(fc.constantFrom(60_000, 90_000), { nil: undefined, freq: 2 }),
  };
}

/** Small configs whose prefixes often repeat and contain each other, with an origin of its own for each value. */
export function anyParsedConfig(family: Family): fc.Arbitrary<ParsedConfig> {
  const said = saidOf(family);
  const keys = Object.fromEntries(KEYS.map(({ name, kind }) => [name, said[kind]]));
  return fc
    .record({ configFile: fc.constantFrom(...CONFIG_FILE_NAMES), values: fc.record(keys) })
    .map(({ configFile, values }) => {
      let line = 0;
      const at = <Value>(value: Value): Located<Value> => {
        line += 1;
        return { value, origin: { kind: 'file', configFile, line, column: 1 } };
      };
      const located = (value: unknown) => {
        if (value === undefined) return undefined;
        return Array.isArray(value) ? value.map(at) : at(value);
      };
      return {
        configFileName: configFile,
        nonMasqueradeOrigin: at(undefined).origin,
        ...(Object.fromEntries(
          KEYS.map(({ name }) => [name, located(values[name])]),
        ) as unknown as ParsedKeys),
      };
    });
}
