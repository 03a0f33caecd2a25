import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { PlacedError } from '../../../lib/text/error.ts';
import { withExceptionList } from '../../../lib/win-bridge/exception-list.ts';
import { useWork } from '../../lab/work.ts';
import {
  AZURE,
  FLANNEL,
  MINIFIED,
  OVN,
  POWERSHELL,
  policyOf,
  SDNBRIDGE,
  WIN_BRIDGE,
  withNat,
} from './samples.ts';

/** What the list is set to. */
const TWO = ['10.0.0.0/8', '172.16.0.0/12'];
const ITEMS = '"10.0.0.0/8", "172.16.0.0/12"';

describe('the list of a Windows CNI config is replaced, and nothing else but white space:', () => {
  const folded = '{"Type":"WIN-BRIDGE","Policies":[{"Name":"endpointpolicy","VALUE":{"Type":"outboundnat",';
  const unknown = MINIFIED.replace('win-bridge', 'my-bridge');
  for (const [name, config, before] of [
    ['of win-bridge', WIN_BRIDGE, '"192.168.0.0/16",\n          "11.0.0.0/8"'],
    ['of win-overlay with HNS API 2 and tabs', OVN, '"172.30.0.0/16"'],
    ['of azure-vnet in a .conflist', AZURE, '"10.240.0.0/16"'],
    ['of sdnbridge with leading commas', SDNBRIDGE, /"192[^\]]*2\/32"/],
    ['of the delegate of flannel', FLANNEL, '"10.244.0.0/16", "10.96.0.0/12"'],
    ['of PowerShell, with byte order mark', POWERSHELL, '"10.244.0.0/16"'],
    ['with one item and no white space', MINIFIED, '"10.96.0.0/12"'],
    ['with one item on its line', withNat('"ExceptionList": ["x"]'), '"x"'],
    ['with API 2 by its form alone', withNat('"Settings":{"Exceptions":["x"]}'), '"x"'],
    ['of a plugin that is not known', unknown, '"10.96.0.0/12"'],
    ['in its AdditionalArgs', unknown.replace('policies', 'AdditionalArgs'), '"10.96.0.0/12"'],
    ['with keys and names in other case', `${folded}"ExceptionList":[1]}}]}`, '1'],
  ] as const) {
    it(name, () => {
      const expected = indented(config.replace(before, ITEMS));
      assert.equal(changed(config), expected);
      assert.equal(changed(expected), expected);
    });
  }

  it('on lines that are indented and end as before', () => {
    const list = withNat('"ExceptionList":["x"]').replace('{', '{\r\n\t');
    assert.match(changed(list), /^\{\r\n\t"type": .*\n\t\t\t\t\t"10\.0\.0\.0\/8",\r\n/s);
  });

  it('but no number that would change', () => {
    const huge = withNat('"x":9007199254740993,"ExceptionList":[]');
    assert.match(rejected(huge).message, /too large/);
    assert.equal(rejected(huge).offset, huge.indexOf('9007'));
    assert.match(changed(withNat('"x":[1e2,-0.5,true],"ExceptionList":[]')), /"x":\[100,-0\.5,true\]/);
  });

  it('with no items, before or after', () => {
    const list = (text: string) => withNat(`"ExceptionList": ${text}`);
    for (const none of ['[]', '[\n]', 'null'])
      assert.equal(changed(list(none)), indented(list(`[${ITEMS}]`)));
    assert.equal(changed(list(`[\n${ITEMS}\n]`), []), indented(list('[]')));
    assert.equal(changed(list('[ ]'), []), list('[ ]'));
  });

  it('in every plugin that has the policy', () => {
    const config = (list: string) => {
      const plugin = withNat(`"ExceptionList":[${list}]`);
      const other = '{"type":"other","policies":{"a":1},"AdditionalArgs":[1,{"value":2}]}';
      return `{"plugins":[${plugin},${other},${plugin.replace('win-bridge', 'my-bridge')}]}`;
    };
    assert.equal(changed(config('"1.0.0.0/8"')), config(ITEMS.replace(' ', '')));
  });

  it('not at all if it says the same', () => {
    const odd = withNat(`"ExceptionList":[ "10.0.0.0/8"\t,\r\n\n "172.16.0.0\\/12"]\n`);
    assert.equal(changed(odd), odd);
    assert.notEqual(changed(odd, TWO.toReversed()), odd);
  });
});

describe('a policy without list gets one:', () => {
  const list = JSON.stringify(TWO);
  for (const [name, before, after] of [
    ['on its line', withNat('"x": 1'), withNat(`"x": 1,"ExceptionList": ${list}`)],
    ['on a line of its own', withNat('\r\n\t"x": 1'), withNat(`\r\n\t"x": 1,\r\n\t"ExceptionList": ${list}`)],
    ['in Settings', withNat('"Settings":{"x":1}'), withNat(`"Settings":{"x":1,"Exceptions": ${list}}`)],
    ['in empty Settings', withNat('"Settings":{}'), withNat(`"Settings":{"Exceptions": ${list}}`)],
    [
      'with Settings for API 2',
      withNat('"x":1').replace('{', '{"apiVersion":2,'),
      withNat(`"x":1,"Settings": {"Exceptions":${list}}`).replace('{', '{"apiVersion":2,'),
    ],
  ] as const) {
    it(name, () => {
      assert.equal(changed(before), indented(after));
      assert.equal(changed(after), after);
    });
  }
});

describe('a config without the policy is an error that says what to add, and where:', () => {
  const value1 = '{"Type": "OutBoundNAT", "ExceptionList": []}';
  const value2 = '{"Type": "OutBoundNAT", "Settings": {"Exceptions": []}}';
  const policies = (value: string) =>
    `{"name": "EndpointPolicy", "value": ${value}} to the list "policies" of`;
  const args = (value: string) =>
    `{"Name": "EndpointPolicy", "Value": ${value}} to the list "AdditionalArgs" of`;
  const WIN_BRIDGE_ONE = `${policies(value1)} plugin "win-bridge"`;
  const AZURE_ONE = `${args(value1)} plugin "azure-vnet"`;
  for (const [name, config, remedy] of [
    ['win-bridge', '{"type": "win-bridge"}', WIN_BRIDGE_ONE],
    ['policies: null', '{"type": "win-bridge", "policies": null}', WIN_BRIDGE_ONE],
    [
      'apiVersion 2',
      '{"type": "win-overlay", "apiVersion": 2}',
      `${policies(value2)} plugin "win-overlay" with apiVersion 2`,
    ],
    ['calico', '{"type": "calico", "apiVersion": 2}', `${policies(value1)} plugin "calico"`],
    ['azure-vnet', '{"type": "azure-vnet"}', AZURE_ONE],
    ['sdnbridge', '{"type": "sdnbridge"}', `${args(value2)} plugin "sdnbridge"`],
    ['sdnoverlay', '{"type": "sdnoverlay"}', `${args(value2)} plugin "sdnoverlay"`],
    ['a program', '{"type": "SDNBridge.EXE"}', `${args(value2)} plugin "SDNBridge.EXE"`],
    ['flannel', '{"type": "flannel", "delegate": {}}', WIN_BRIDGE_ONE],
    ['no known plugin', '{"type": "portmap"}', `${policies(value1)} the plugin that makes them`],
    [
      'several known plugins',
      '{"plugins": [{"type": "portmap"}, {"type": "win-bridge"}, {"type": "azure-vnet"}]}',
      `${WIN_BRIDGE_ONE}, or ${AZURE_ONE}`,
    ],
    ['a key that the plugin does not read', MINIFIED.replace('policies', 'AdditionalArgs'), WIN_BRIDGE_ONE],
    ['an item without name', MINIFIED.replace('"name":"EndpointPolicy",', ''), WIN_BRIDGE_ONE],
    [
      'a name in other case in AdditionalArgs',
      AZURE.replace('"EndpointPolicy', '"endpointPolicy'),
      AZURE_ONE,
    ],
    ['a Type in other case in AdditionalArgs', AZURE.replace('OutBound', 'Outbound'), AZURE_ONE],
  ] as const) {
    it(name, () => {
      const error = rejected(config);
      assert.match(error.message, /^has no OutBoundNAT policy/);
      assert.equal(error.remedy, `add ${remedy}`);
    });
  }

  it('at the first plugin that could have it', () => {
    const list = '{"plugins": [{"type": "portmap"}, {"type": "calico"}]}';
    assert.equal(rejected(list).offset, list.indexOf('{"type": "calico"'));
    const flannel = '{"type": "flannel", "delegate": {}}';
    assert.equal(rejected(flannel).offset, flannel.indexOf('{}'));
  });
});

describe('what needs a guess is an error with its place:', () => {
  for (const [name, config, at, message] of [
    ['a list', '[]', '[', /must be an object/],
    ['a plugin without type', '{"name": "x"}', '{', /without "type"/],
    ['a type that is a number', '{"type": 1}', '{', /without "type"/],
    ['plugins that are no list', '{"plugins": {}}', '{}', /"plugins" must be a list/],
    ['a plugin that is no object', '{"plugins": [1]}', '1', /a plugin must be an object/],
    ['plugins in other case', '{"Plugins": []}', '"Plugins"', /only "plugins" is read/],
    ['plugins beside a type', '{"plugins": [], "Type": "x"}', '"Type"', /has both "plugins" and "type"/],
    ['flannel without delegate', '{"type": "flannel"}', '{', /no "delegate"/],
    ['a key twice', '{"type": "x", "type": "y"}', '"type": "y"', /"type" more than once/],
    ['a key in two cases', '{"type": "calico", "policies": [], "Policies": []}', '"Pol', /"Policies" more/],
    ['a list twice', withNat('"ExceptionList":[],"ExceptionList":[1]'), '"ExceptionList":[1', /more than/],
    [
      'two policies',
      MINIFIED.replace(/\[(\{.*\})\]/, '[$1, $1]'),
      '{"Type":"OutBoundNAT","ExceptionList":["10.96.0.0/12"]}}]',
      /more than one OutBoundNAT .* "win-bridge"/,
    ],
    ['a policy in other case', policyOf('{"type":"OutBoundNAT"}'), '"type":"Out', /only "Type" is read/],
    ['a list in other case', withNat('"exceptionList":[]'), '"exc', /only "ExceptionList" is read/],
    ['both forms', withNat('"ExceptionList":[],"Settings":{"Exceptions":[]}'), '"Exceptions"', /either/],
    ['API 1 in Settings', withNat('"Settings":{"ExceptionList":[]}'), '"Exc', /"Settings\.Exc.* either/],
    ['Exceptions outside of Settings', withNat('"Exceptions":[]'), '"Exc', /"Exceptions" .* either/],
    ['API 1 with version 2', `{"ApiVersion":2,${MINIFIED.slice(1)}`, '"Exc', /apiVersion 2 does not read/],
    ['API 1 in sdnbridge', AZURE.replace('azure-vnet', 'sdnbridge'), '"Exc', /"sdnbridge" does not read/],
    ['API 2 in azure-vnet', SDNBRIDGE.replace('sdnbridge', 'azure-vnet'), '"Exc', /azure-vnet" does not/],
    ['Settings that are a list', withNat('"Settings":[7]'), '[7]', /"Settings" must be an object/],
    ['a list that is text', withNat('"ExceptionList":"x"'), '"x"', /"ExceptionList" must be a list/],
  ] as const) {
    it(name, () => {
      for (const text of [config, `\ufeff${config}`]) {
        const error = rejected(text);
        assert.match(error.message, message);
        assert.equal(error.offset, text.indexOf(at));
        assert.notEqual(error.remedy, '');
      }
    });
  }

  it('without control characters, whatever the config says', () => {
    const delegate = '{"type":"\\u001b[31m\\n\\u202e","policies":[],"POLICIES\\u001b":1}';
    const { message, remedy } = rejected(`{"type":"flannel","delegate":${delegate}}`);
    assert.doesNotMatch(message + remedy, /[\p{Cc}\p{Cf}]/u);
  });
});

describe('whatever the config', () => {
  const workOf = useWork();

  const cidr = fc
    .tuple(fc.nat(255), fc.nat(255), fc.integer({ min: 16, max: 32 }))
    .map(([a, b, length]) => `10.${a}.${b}.0/${length}`);
  const cidrs = fc.array(cidr, { maxLength: 6 });
  // No quote or backslash in keys: V8 13.6 (Node 24) may give one key of JSON.parse for another then.
  const others = fc.object({
    key: fc.stringMatching(/^x[a-z é:,{}[\]]{0,4}$/),
    values: [fc.string(), fc.integer(), fc.boolean(), fc.constant(null)],
    maxDepth: 2,
    maxKeys: 3,
  });
  const blank = fc.array(fc.constantFrom('', ' ', '\n', '\r\n', '\t', '\n    ', '\n\t'), {
    minLength: 1,
    maxLength: 7,
  });
  const shape = fc.record({
    type: fc.constantFrom('win-bridge', 'win-overlay', 'calico'),
    apiVersion: fc.constantFrom(1, 2),
    inList: fc.boolean(),
    others,
    moreOthers: others,
    policies: fc.array(others, { maxLength: 2 }),
  });
  type Shape = typeof shape extends fc.Arbitrary<infer Value> ? Value : never;

  /** A config that has this list; none if it is undefined. */
  function configWith(
    { type, apiVersion, inList, others, moreOthers, policies }: Shape,
    list: unknown,
  ): object {
    const inSettings = apiVersion === 2 && type !== 'calico';
    const content = list === undefined ? {} : { [inSettings ? 'Exceptions' : 'ExceptionList']: list };
    const value = inSettings
      ? { Type: 'OutBoundNAT', Settings: { ...moreOthers, ...content } }
      : { Type: 'OutBoundNAT', ...moreOthers, ...content };
    const policy = { name: 'EndpointPolicy', value };
    const plugin = { ...others, type, apiVersion, policies: [...policies, policy, ...policies] };
    return inList ? { ...others, plugins: [{ type: 'portmap' }, plugin] } : plugin;
  }

  it('only the list differs, and the second run changes nothing', () => {
    const lists = fc.option(cidrs, { nil: undefined });
    fc.assert(
      fc.property(shape, lists, cidrs, blank, fc.boolean(), (from, old, wanted, white, bom) => {
        const config = `${bom ? '\ufeff' : ''}${write(configWith(from, old), white)}`;
        const result = changed(config, wanted);
        const isSame = old?.join() === wanted.join();
        const other = JSON.stringify(configWith(from, wanted));
        assert.equal(result, isSame ? config : indented(config, other));
        assert.equal(changed(result, wanted), result);
      }),
    );
  });

  it('the work for a hostile one grows with its length', async () => {
    const plugin = policyOf('{"Type":"OutBoundNAT"}');
    for (const text of [
      '['.repeat(1_000),
      '{"":'.repeat(1_000),
      '['.repeat(260_000),
      '}'.repeat(260_000),
      '[1},'.repeat(1_000),
      '{"a":1],"b":'.repeat(1_000),
      `${'}'.repeat(100_000)}${'['.repeat(1_000)}`,
      `{"type":"win-bridge"${',"a":1'.repeat(40_000)}}`,
      `{"plugins":[${`${plugin},`.repeat(200)}${plugin}${' '.repeat(200_000)}]}`,
      withNat(`"ExceptionList":[${'"",'.repeat(80_000)}""]`),
      withNat(`${' '.repeat(250_000)}"x":1`),
    ]) {
      // The text is read again for each plugin that gets a list, of which there are at most some hundred.
      const path = 'lib/win-bridge/exception-list.ts';
      const work = await workOf({ path, name: 'withExceptionList', args: [text, TWO] });
      assert.ok(work <= 1_000 * text.length, `${work} for ${text.length} characters`);
    }
  });
});

function changed(config: string, cidrs: readonly string[] = TWO): string {
  const result = withExceptionList(config, cidrs);
  assert.ok('text' in result, `${JSON.stringify(result)} for ${config}`);
  return result.text;
}

function rejected(config: string): PlacedError {
  const result = withExceptionList(config, TWO);
  assert.ok('error' in result, config);
  return result.error;
}

/** JSON with white space after the tokens, taken in turn. */
function write(value: unknown, white: readonly string[]): string {
  let next = 0;
  return JSON.stringify(value).replace(/"(?:[^"\\]|\\.)*"|[^\s"[\]{},:]+|[[\]{},:]/g, (token) => {
    next += 1;
    return `${token}${white[next % white.length] ?? ''}`;
  });
}

/** The same JSON, or another, with the line breaks and the indentation of the text. */
function indented(text: string, other?: string): string {
  const [, lineBreak = '', indent] = /(\r?\n)([ \t]+)/.exec(text) ?? [];
  const [, before = '', json = '', after = ''] = /^(\s*)(.*?)(\s*)$/s.exec(text) ?? [];
  const lines = JSON.stringify(JSON.parse(other ?? json), undefined, indent);
  return `${before}${lines.replaceAll('\n', lineBreak)}${after}`;
}
