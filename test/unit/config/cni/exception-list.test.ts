import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { withExceptionList } from '../../../../lib/config/cni/exception-list.ts';
import { UNPRINTABLE } from '../support.ts';
import { AZURE, FLANNEL, MINIFIED, policyOf, SDNBRIDGE, WIN_BRIDGE, WIN_OVERLAY } from './samples.ts';
import { changed, itAdds, itRejects, itReplaces, joined, TWO } from './support.ts';

describe('the list of a Windows CNI config', () => {
  itReplaces([
    [
      'of win-bridge',
      WIN_BRIDGE,
      '          "192.168.0.0/16",\n          "11.0.0.0/8",\n          "10.137.196.0/23"\n',
      '          "10.0.0.0/8",\n          "172.16.0.0/12"\n',
    ],
    [
      'of win-overlay with HNS API 2, capitalized keys and tabs',
      WIN_OVERLAY,
      '\t\t\t\t\t\t"172.30.0.0/16"\n',
      '\t\t\t\t\t\t"10.0.0.0/8",\n\t\t\t\t\t\t"172.16.0.0/12"\n',
    ],
    [
      'of azure-vnet in a .conflist',
      AZURE,
      '"10.240.0.0/16",\n                            "10.0.0.0/8"\n',
      '"10.0.0.0/8",\n                            "172.16.0.0/12"\n',
    ],
    [
      'of sdnbridge with commas before the items',
      SDNBRIDGE,
      '"192.168.100.0/24"\n                        ,"192.168.100.2/32"\n',
      '"10.0.0.0/8"\n                        ,"172.16.0.0/12"\n',
    ],
    ['of flannel, in its delegate', FLANNEL, '[ "10.244.0.0/16", "10.96.0.0/12" ]', `[ ${joined(', ')} ]`],
  ]);

  it('is replaced in every plugin that has the policy', () => {
    const both = (list: string) => {
      const plugin = MINIFIED.replace('["10.96.0.0/12"]', list);
      return `{"plugins":[${plugin},{"type":"portmap"},${plugin.replace('win-bridge', 'ours')}]}`;
    };
    assert.equal(changed(both('["1.0.0.0/8"]')), both(`[${joined(',')}]`));
  });
});

describe('where a config has no policy', () => {
  itAdds([
    [
      'the policies are created',
      '{\r\n    "type": "flannel",\r\n    "delegate": {\r\n        "apiVersion": 2,\r\n        "type": "win-overlay"\r\n    }\r\n}\r\n',
      '{\r\n    "type": "flannel",\r\n    "delegate": {\r\n        "apiVersion": 2,\r\n        "type": "win-overlay",\r\n        "policies": [\r\n            {\r\n                "name": "EndpointPolicy",\r\n                "value": {\r\n                    "Type": "OutBoundNAT",\r\n                    "Settings": {\r\n                        "Exceptions": [\r\n                            "10.0.0.0/8",\r\n                            "172.16.0.0/12"\r\n                        ]\r\n                    }\r\n                }\r\n            }\r\n        ]\r\n    }\r\n}\r\n',
    ],
    [
      'the policies are created in a delegate that is empty',
      '{"type":"flannel","delegate":{}}',
      `{"type":"flannel","delegate":{"policies":[{"name":"EndpointPolicy","value":{"Type":"OutBoundNAT","ExceptionList":[${joined(',')}]}}]}}`,
    ],
    [
      'policies that are null are replaced',
      '{ "plugins": [ { "type": "win-bridge.exe", "policies": null, "x": 1 } ] }',
      `{ "plugins": [ { "type": "win-bridge.exe", "policies": [{"name": "EndpointPolicy", "value": {"Type": "OutBoundNAT", "ExceptionList": [${joined(', ')}]}}], "x": 1 } ] }`,
    ],
    [
      'the plugin that makes the endpoint gets it',
      '{"plugins":[{"type":"portmap"},{"type":"azure-vnet"}]}',
      `{"plugins":[{"type":"portmap"},{"type":"azure-vnet","AdditionalArgs":[{"Name":"EndpointPolicy","Value":{"Type":"OutBoundNAT","ExceptionList":[${joined(',')}]}}]}]}`,
    ],
  ]);
});

describe('an error names the place and the remedy', () => {
  itRejects([
    [
      'no known plugin',
      '{"plugins": [{"type": "portmap"}]}',
      0,
      /known to make Windows/,
      /write an OutBoundNAT/,
    ],
    [
      'two known plugins',
      '{"plugins": [{"type": "win-bridge"}, {"type": "azure-vnet"}]}',
      '{"type": "azure-vnet"}',
      /"win-bridge" and "azure-vnet"/,
      /right one/,
    ],
  ]);

  it('and has no control characters, whatever the config says', () => {
    const evil = '\\u001b[31m\\n\\u202e';
    const result = withExceptionList(
      `{"type":"win-bridge","policies":[{"name":"${evil}","value":{"Type":"OutBoundNAT"}}]}`,
      [],
    );
    assert.ok('error' in result);
    assert.doesNotMatch(`${result.error.message}${result.error.remedy}`, UNPRINTABLE);
  });
});

describe('whatever the config', () => {
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
  const blank = fc.array(fc.constantFrom('', '', ' ', '\n', '\r\n', '\t', '  ', '\n    ', '\n\t'), {
    minLength: 1,
    maxLength: 7,
  });
  const shape = fc.record({
    type: fc.constantFrom('win-bridge', 'win-overlay', 'calico'),
    others,
    moreOthers: others,
    policies: fc.array(others, { maxLength: 2 }),
    inList: fc.boolean(),
    apiVersion: fc.constantFrom(1, 2),
  });
  type Shape = typeof shape extends fc.Arbitrary<infer Value> ? Value : never;

  const mark = '@the list@';
  const usesSettings = ({ type, apiVersion }: Shape) => apiVersion === 2 && type !== 'calico';

  function pluginOf({ type, others, apiVersion, inList }: Shape, policies: object): object {
    const plugin = { ...others, type, apiVersion, ...policies };
    return inList ? { ...others, plugins: [{ type: 'portmap' }, plugin] } : plugin;
  }

  function policyWith(from: Shape, list: object, others: Shape['others']): object {
    const value = usesSettings(from)
      ? { Type: 'OutBoundNAT', Settings: { ...others, ...list } }
      : { Type: 'OutBoundNAT', ...list, ...others };
    return { name: 'EndpointPolicy', value };
  }

  function listOf(from: Shape, list: unknown): object {
    return usesSettings(from) ? { Exceptions: list } : { ExceptionList: list };
  }

  it('only the list differs', () => {
    fc.assert(
      fc.property(
        shape,
        cidrs,
        cidrs,
        blank,
        blank,
        fc.boolean(),
        (from, old, wanted, white, inside, bom) => {
          const config = (list: unknown) => {
            const policy = policyWith(from, listOf(from, list), from.moreOthers);
            return pluginOf(from, { policies: [...from.policies, policy, ...from.policies] });
          };
          const [before = '', after = ''] = write(config(mark), white).split(JSON.stringify(mark));
          const list = write(old, inside).trim();
          const head = `${bom ? '\ufeff' : ''}${before}`;
          const result = changed(`${head}${list}${after}`, wanted);
          assert.ok(result.startsWith(head) && result.endsWith(after));
          const written = result.slice(head.length, result.length - after.length);
          assert.deepEqual(JSON.parse(written), wanted);
          assert.deepEqual(JSON.parse(result.replace('\ufeff', '')), config(wanted));
          if (wanted.length > 1) assert.equal(/[\r\n]/.test(written), /[\r\n]/.test(list));
          if (old.join() === wanted.join()) assert.equal(written, list);
          assert.equal(changed(result, wanted), result);
        },
      ),
    );
  });

  it('only what is missing is added', () => {
    const missing = fc.constantFrom('list', 'policy', 'policies');
    fc.assert(
      fc.property(shape, cidrs, blank, missing, (from, wanted, white, what) => {
        const policies = what === 'policies' ? [] : from.policies;
        const kept = what === 'list' ? from.moreOthers : {};
        const bare = {
          list: { policies: [...policies, policyWith(from, {}, kept)] },
          policy: { policies },
          policies: {},
        }[what];
        const full = { policies: [...policies, policyWith(from, listOf(from, wanted), kept)] };
        const config = write(pluginOf(from, bare), white);
        const result = changed(config, wanted);
        assert.deepEqual(JSON.parse(result), pluginOf(from, full));
        // White space within empty brackets gives way.
        if (!/\[\s+\]|\{\s+\}/.test(config)) assert.ok(isInsertion(config, result), `${config}\n${result}`);
        assert.equal(changed(result, wanted), result);
      }),
    );
  });

  it('any text has an answer', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary' }),
        cidrs,
        (text, wanted) => void withExceptionList(text, wanted),
      ),
    );
  });

  it('a hostile one has it soon', { timeout: 10_000 }, () => {
    const plugin = policyOf('{"Type":"OutBoundNAT"}');
    for (const text of [
      '['.repeat(260_000),
      '{"":'.repeat(60_000),
      '}'.repeat(260_000),
      '{"a":1 '.repeat(30_000),
      '[1},'.repeat(60_000),
      '{"a":1],"b":'.repeat(20_000),
      `${'}'.repeat(100_000)}${'['.repeat(100_000)}`,
      `{"type":"win-bridge"${',"a":1'.repeat(40_000)}}`,
      `{"plugins":[${`${plugin},`.repeat(2_000)}${plugin}]}`,
      policyOf(`{"Type":"OutBoundNAT","ExceptionList":[${'"",'.repeat(80_000)}""]}`),
    ]) {
      withExceptionList(text, TWO);
    }
  });
});

/** JSON with white space between the tokens, taken in turn. */
function write(value: unknown, white: readonly string[]): string {
  let next = 0;
  return JSON.stringify(value).replace(/"(?:[^"\\]|\\.)*"|[^\s"[\]{},:]+|[[\]{},:]/g, (token) => {
    next += 1;
    return `${token}${white[next % white.length] ?? ''}`;
  });
}

/** Whether the longer text is the shorter one with something put in at one place. */
function isInsertion(shorter: string, longer: string): boolean {
  let head = 0;
  while (head < shorter.length && shorter[head] === longer[head]) head += 1;
  return longer.endsWith(shorter.slice(head));
}
