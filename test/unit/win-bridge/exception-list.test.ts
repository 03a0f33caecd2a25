import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { PlacedError } from '../../../lib/text/error.ts';
import { withExceptionList } from '../../../lib/win-bridge/exception-list.ts';
import { useWork } from '../../lab/work.ts';

/** What the list is set to. */
const TWO = ['10.0.0.0/8', '172.16.0.0/12'];
const ITEMS = '"10.0.0.0/8", "172.16.0.0/12"';

describe('the list of a Windows CNI config is replaced, and nothing else but white space:', () => {
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

/** A win-bridge config with this OutBoundNAT policy. */
function withNat(content: string): string {
  return policyOf(`{"Type":"OutBoundNAT",${content}}`);
}

/** A win-bridge config with this policy. */
function policyOf(policy: string): string {
  return `{"type":"win-bridge","policies":[{"name":"EndpointPolicy","value":${policy}}]}`;
}
